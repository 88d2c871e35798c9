"""The class of every Ray actor. No Ray."""

from __future__ import annotations

import functools
import inspect
from pathlib import Path

from actors.cluster.process import Process, origin_of
from actors.settings import Settings

OF_THE_FIRST_RELEASE = {
    *("__init__", "ping", "door", "whereabouts", "call", "figures", "stop"),
    *("_started", "_build"),
}
OF_LATER_RELEASES = {"_start_again"}


def test_each_release_finds_the_methods_of_the_others() -> None:
    """Ray looks up each method of the creator's class in the code of the new process, which is newer during
    an upgrade, and older during a rollback."""
    assert {name for name, _ in inspect.getmembers(Process, inspect.isfunction)} == OF_THE_FIRST_RELEASE
    for name in OF_LATER_RELEASES:
        # As Ray wraps a method, and reads the signature of what it has wrapped.
        wrapped = functools.wraps(lambda *_arguments: None)(lambda *_arguments: None)
        wrapped.__wrapped__ = getattr(Process, name)
        inspect.signature(wrapped)


def test_origin_tells_processes_of_other_settings_apart(tmp_path: Path) -> None:
    settings = Settings.load(var_dir=tmp_path, database_url="postgresql://nowhere/none")
    passed_on = Settings.from_json(settings.to_json())
    assert origin_of("m:e", settings, 0) == origin_of("m:e", passed_on, 0)
    others = {
        origin_of("m:e", settings, 0),
        origin_of("m:r", settings, 0),
        origin_of("m:e", settings, 5),
        origin_of("m:e", settings.replace(log_level="debug"), 0),
    }
    assert len(others) == 4
