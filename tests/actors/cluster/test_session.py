"""Starting a local Ray on a machine that is busy; without Ray."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.cluster import session as module
from actors.cluster.environment import ClusterError
from actors.cluster.session import join
from actors.settings import Settings


class Slow:
    """Ray whose first ``failures`` starts take too long."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.starts = 0

    def __call__(self, settings: Settings) -> None:
        self.starts += 1
        if self.starts <= self.failures:
            raise Exception("The current node timed out during startup.\nThis could happen because ...")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(module, "prepare", lambda _settings: None)
    return Settings.load(var_dir=tmp_path)


@pytest.mark.parametrize(("failures", "starts"), [(0, 1), (1, 2)])
def test_a_start_that_takes_too_long_is_tried_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, failures: int, starts: int
) -> None:
    slow = Slow(failures)
    monkeypatch.setattr(module, "_start_local", slow)
    join(settings)
    assert slow.starts == starts


def test_in_the_end_it_is_one_line(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_start_local", Slow(9))
    with pytest.raises(ClusterError) as told:
        join(settings)
    assert str(told.value) == "Ray does not start: The current node timed out during startup."
