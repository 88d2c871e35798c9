"""Log lines have one format, contain no card numbers or personal data, and repetitions are counted."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import example, given
from hypothesis import strategies as st

from actors.log import (
    LOG_FILE,
    MASK,
    TRACE,
    RepeatFilter,
    append,
    configure,
    drop_exception_texts,
    mask_card_numbers,
)
from engine.limits import LOG_KINDS_MAX, LOG_REPEATS_MAX, LOG_REPEATS_SECONDS
from engine.pan import luhn_digit

PAN = "4560000000000000"[:15] + luhn_digit("456000000000000")


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """The log file of a configured process; the configuration is reset afterwards."""
    handlers, level = logging.root.handlers[:], logging.root.level
    handler = configure(tmp_path, "info", "host-1")
    yield tmp_path / LOG_FILE
    handler.close()
    structlog.reset_defaults()
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def log() -> Any:
    # A new logger: a cached one would use the configuration of an earlier test.
    return structlog.get_logger().bind()


def test_values_that_the_fast_encoder_refuses_are_written(file: Path) -> None:
    log().warning("odd", large=2**70, half="\ud800", number=1.5)
    (line,) = lines(file)
    assert (line["large"], line["half"], line["number"]) == (2**70, "\ud800", 1.5)


def test_line_is_a_json_object_with_time_level_and_process(file: Path) -> None:
    log().warning("host_lost", incarnation="i-1")
    (line,) = lines(file)
    at = line.pop("at")
    assert at.endswith("Z")
    assert line == {
        "incarnation": "i-1",
        "event": "host_lost",
        "level": "warning",
        "process": "host-1",
    }


def test_file_exists_from_the_start_and_is_private(file: Path) -> None:
    assert lines(file) == []
    assert file.stat().st_mode & 0o077 == 0


def test_lines_below_the_level_are_dropped(file: Path) -> None:
    log().debug("quiet")
    log().info("loud")
    assert [line["event"] for line in lines(file)] == ["loud"]


def test_lines_of_a_request_have_its_trace(file: Path) -> None:
    token = TRACE.set("r-1")
    log().info("of the request")
    log().info("of another", trace="r-2")
    TRACE.reset(token)
    log().info("of none")
    assert [line.get("trace") for line in lines(file)] == ["r-1", "r-2", None]


@pytest.mark.parametrize(
    "value",
    [
        PAN,
        int(PAN),
        f"card {PAN} was refused",
        f"{PAN[:4]} {PAN[4:8]} {PAN[8:12]} {PAN[12:]}",
        f"{PAN[:4]}-{PAN[4:8]}-{PAN[8:12]}-{PAN[12:]}",
        f'{{"pan":"{PAN}"}}',
        [PAN],
        {"pan": {"digits": PAN}},
        {PAN: "as a name"},
        (b"frame", PAN.encode()),
    ],
)
def test_card_numbers_are_masked_at_any_depth(file: Path, value: Any) -> None:
    log().error("leak", value=value, **{f"n{PAN}": 1})
    text = file.read_text("utf-8").replace(f"n{PAN}", "")
    digits = "".join(character for character in text if character.isdigit())
    assert MASK in text
    assert PAN not in digits


@pytest.mark.parametrize(
    "value",
    [
        PAN[:-1] + str((int(PAN[-1]) + 1) % 10),
        "633251412345",
        "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e",
        "12345678-1234-7234-8234-123456789012",
        "2026-11-21T18:40:08.275213Z",
        12.5,
        True,
        None,
        -1,
    ],
)
def test_other_values_are_unchanged(value: Any) -> None:
    assert mask_card_numbers(None, "info", {"event": "x", "value": value})["value"] == value


@given(st.text("0123456789af", min_size=32, max_size=32), st.sampled_from(("{}", "/v1/cards/{}", "id={},{}")))
@example(f"a{PAN[:7]}{PAN[7:]}0000000000000af", "{}")
def test_ids_are_kept(digits: str, text: str) -> None:
    id_ = str(uuid.UUID(digits))
    value = text.format(id_, id_)
    assert mask_card_numbers(None, "info", {"request": value})["request"] == value


@given(st.text(max_size=8), st.integers(12, 18), st.data())
def test_no_valid_number_survives(around: str, length: int, data: st.DataObject) -> None:
    body = data.draw(st.text("0123456789", min_size=length, max_size=length))
    number = body + luhn_digit(body)
    around = "".join(character for character in around if not (character.isdigit() or character in " -"))
    assert number not in mask_card_numbers(None, "info", {"v": f"{around}{number}{around}"})["v"]


def test_exceptions_are_logged_without_their_texts(file: Path) -> None:
    try:
        raise ValueError("Key (email)=(ada@example.com) already exists")
    except ValueError as failure:
        log().error("given", exc_info=failure)
        log().exception("current")
    for line in lines(file):
        assert line["error"] == "ValueError"
        assert line["places"][-1].endswith(" test_exceptions_are_logged_without_their_texts")
    assert "ada@example.com" not in file.read_text("utf-8")
    assert "error" not in drop_exception_texts(None, "info", {"event": "x", "exc_info": False})


def test_lines_of_libraries_are_logged_without_arguments(file: Path) -> None:
    library = logging.getLogger("library.of.others")
    library.info("not of interest")
    library.warning("row %s is bad\nwith all of it", "secret-value")
    try:
        raise RuntimeError("secret-value")
    except RuntimeError:
        library.exception("failed")
    first, second = lines(file)
    assert (first["event"], first["library"], first["message"]) == (
        "library",
        "library.of.others",
        "row %s is bad",
    )
    assert (second["level"], second["error"]) == ("error", "RuntimeError")
    assert "secret-value" not in file.read_text("utf-8")


def test_moved_file_is_replaced(file: Path) -> None:
    log().info("before")
    file.rename(file.with_suffix(".1"))
    log().info("after")
    assert [line["event"] for line in lines(file)] == ["after"]


def test_repeated_lines_are_counted() -> None:
    now = 0.0
    repeat_filter = RepeatFilter(lambda: now)

    def write(event: str, method: str = "warning") -> dict[str, Any] | None:
        try:
            return dict(repeat_filter(None, method, {"event": event}))
        except structlog.DropEvent:
            return None

    written = [write("down") for _ in range(LOG_REPEATS_MAX + 7)]
    assert [line is not None for line in written] == [True] * LOG_REPEATS_MAX + [False] * 7
    assert write("up") is not None, "another kind"
    assert write("down", "error") is not None, "another level"
    now += LOG_REPEATS_SECONDS
    assert write("down") == {"event": "down", "repeated": 7}
    now += LOG_REPEATS_SECONDS
    assert write("down") == {"event": "down"}
    for number in range(LOG_KINDS_MAX + 1):
        assert write(f"kind {number}") is not None
    assert len(repeat_filter._kinds) <= LOG_KINDS_MAX


def test_lines_that_must_all_be_written_are_not_dropped(file: Path) -> None:
    for number in range(LOG_REPEATS_MAX + 3):
        log().info("decision", every=True, number=number)
    assert [line["number"] for line in lines(file)] == list(range(LOG_REPEATS_MAX + 3))
    assert "every" not in lines(file)[0]


def test_command_appends_a_line_to_an_existing_log(file: Path, tmp_path: Path) -> None:
    append(tmp_path, "command", "act", act="revoke_client", note=PAN)
    (line,) = lines(file)
    assert (line["process"], line["event"], line["act"], line["level"]) == (
        "command",
        "act",
        "revoke_client",
        "info",
    )
    assert line["note"] == MASK
    append(tmp_path / "elsewhere", "command", "act")
    assert not (tmp_path / "elsewhere").exists()
