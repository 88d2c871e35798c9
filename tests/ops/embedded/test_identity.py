"""Copies for the nobody user: created once, and refused when another user could have made them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from ops.embedded.identity import reachable_by_others, reachable_copy
from ops.embedded.ports import can_connect, free_ports
from ops.embedded.process import ServerError


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    source = tmp_path / "private" / "package"
    (source / "bin").mkdir(parents=True)
    (source / "bin" / "server").write_text("#!")
    (tmp_path / "private").chmod(0o700)
    return source


def test_a_folder_in_a_private_folder_is_not_reachable(source: Path) -> None:
    assert not reachable_by_others(source)
    assert reachable_by_others(Path("/"))


def test_a_copy_is_created_once(source: Path) -> None:
    first = reachable_copy([source], "copy")
    assert (first / "package" / "bin" / "server").read_text() == "#!"
    (first / "package" / "mark").touch()
    assert reachable_copy([source], "copy") == first
    assert (first / "package" / "mark").exists()


def test_a_copy_that_others_could_change_is_refused(source: Path) -> None:
    reachable_copy([source], "copy").chmod(0o777)
    with pytest.raises(ServerError, match="was not made by this program"):
        reachable_copy([source], "copy")


def test_a_planted_link_is_refused(source: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").symlink_to(source)
    with pytest.raises(ServerError, match="was not made by this program"):
        reachable_copy([source], "copy")


def test_free_ports_are_different_and_free() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    assert not any(can_connect("127.0.0.1", port) for port in ports)
