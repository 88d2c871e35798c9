"""An installation run from outside: a start that fails is an error with its last words, never a wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.supervision.running_installation import RunningError, RunningInstallation


def test_a_start_that_fails_ends_with_its_last_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installation = RunningInstallation(tmp_path / "var", {"STANCHION_HOSTS": "none"})
    with pytest.raises(RunningError, match=r"^it did not start: stanchion: STANCHION_HOSTS: "):
        installation.start()
    assert installation.pid is None
    installation.stop()


def test_the_settings_of_the_caller_are_not_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANCHION_LOG_LEVEL", "loud")
    installation = RunningInstallation(tmp_path / "var", {"STANCHION_HOSTS": "none"})
    with pytest.raises(RunningError, match="STANCHION_HOSTS"):
        installation.start()
