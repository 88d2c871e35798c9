"""An installation as a subprocess: a failed start is an error with its last line of output, without
waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.supervision.running_installation import RunningError, RunningInstallation


def test_a_start_that_fails_ends_with_its_last_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installation = RunningInstallation(tmp_path / "var", {"STANCHION_HOSTS": "none"})
    with pytest.raises(RunningError, match=r"^stanchion up did not start: stanchion: STANCHION_HOSTS: "):
        installation.start()
    assert installation.pid is None
    installation.stop()


def test_the_callers_settings_are_not_inherited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANCHION_LOG_LEVEL", "loud")
    installation = RunningInstallation(tmp_path / "var", {"STANCHION_HOSTS": "none"})
    with pytest.raises(RunningError, match="STANCHION_HOSTS"):
        installation.start()
