"""Values of settings become typed, and errors state the requirement without the value."""

from __future__ import annotations

import pickle
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from actors.setting_values import Networks, Secret, converted, existing_file, is_path_prefix, path_prefix

Level = Literal["low", "middle", "high"]
Count = Annotated[int, Meta(ge=1, le=256)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Name = Annotated[str, Meta(max_length=3)] | None


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (bool, "true", True),
        (bool, " Off ", False),
        (bool, "0", False),
        (bool, True, True),
        (Count, "1", 1),
        (Count, " 256 ", 256),
        (Count, 7, 7),
        (Share, "0.5", 0.5),
        (Share, 1, 1.0),
        (str, "text", "text"),
        (Name, None, None),
        (Name, "abc", "abc"),
        (Level, "middle", "middle"),
        (Path, "a/b", Path("a/b")),
        (Path | None, Path("a"), Path("a")),
        (Secret | None, "text", Secret("text")),
        (Secret, Secret("text"), Secret("text")),
        (Networks, "none", ()),
        (Networks, "10.0.0.0/8, ::1/128", (ip_network("10.0.0.0/8"), ip_network("::1/128"))),
        (Networks, ["10.0.0.0/8"], (ip_network("10.0.0.0/8"),)),
    ],
)
def test_value_becomes_the_type_of_its_field(annotation: Any, value: object, expected: object) -> None:
    found = converted(value, annotation)
    assert (found, type(found)) == (expected, type(expected))
    assert converted(found, annotation) == expected


@pytest.mark.parametrize(
    ("annotation", "value", "requirement"),
    [
        (bool, "hidden", "must be true or false"),
        (Count, "hidden", "must be a whole number from 1 to 256"),
        (Count, "0", "must be a whole number from 1 to 256"),
        (Count, 257, "must be a whole number from 1 to 256"),
        (Count, 1.5, "must be a whole number from 1 to 256"),
        (Count, None, "must be a whole number from 1 to 256"),
        (Annotated[int, Meta(ge=1)], "-1", "must be a whole number, at least 1"),
        (Share, "nan", "must be a number from 0.0 to 1.0"),
        (Share, "hidden", "must be a number from 0.0 to 1.0"),
        (str, 5, "must be text"),
        (Name, "hidden", "must be text of at most 3 characters"),
        (Level, "hidden", "must be low, middle or high"),
        (Path, 5, "must be text"),
        (Secret, None, "must be text"),
        (Networks, "hidden", "must be networks like 10.0.0.0/8, separated by commas"),
        (Networks, 5, "must be networks like 10.0.0.0/8, separated by commas"),
    ],
)
def test_wrong_value_states_the_requirement(annotation: Any, value: object, requirement: str) -> None:
    with pytest.raises(ValueError) as failure:  # noqa: PT011 - the whole message is compared
        converted(value, annotation)
    assert str(failure.value) == requirement


def test_secret_is_masked() -> None:
    secret = Secret("hidden")
    assert "hidden" not in f"{secret} {secret!r} {[secret]}"
    assert secret.reveal() == "hidden"
    assert pickle.loads(pickle.dumps(secret)) == secret
    assert len({secret, Secret("hidden"), Secret("other")}) == 2


def test_missing_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with pytest.raises(ValueError, match=r"^no such file$"):
        existing_file(file)
    file.touch()
    assert existing_file(file) == file


@pytest.mark.parametrize("prefix", ["/cards", "/a/b-c"])
def test_prefix_loses_slashes_at_its_end(prefix: str) -> None:
    assert path_prefix(f"{prefix}//") == prefix
    assert path_prefix("/") == ""


@pytest.mark.parametrize("prefix", ["/v1", "/docs/more", "cards", "/a b"])
def test_prefix_must_be_a_path_that_the_api_does_not_use(prefix: str) -> None:
    assert not is_path_prefix(prefix)
    with pytest.raises(ValueError, match=r"must be a path like /cards"):
        path_prefix(prefix)
