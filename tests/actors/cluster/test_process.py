"""The class of every Ray actor. No Ray."""

from __future__ import annotations

from pathlib import Path

from actors.cluster.process import Process, origin_of
from actors.settings import Settings

METHODS_OF_THE_FIRST_RELEASE = {
    *("__init__", "ping", "door", "whereabouts", "call", "figures", "stop"),
    *("_started", "_build"),
}


def test_process_has_no_method_that_the_first_release_lacks() -> None:
    """Ray looks up each method of the creator's class in the code of the new process. During a rollback that
    code is older."""
    methods = {name for name, value in vars(Process).items() if callable(value)}
    assert methods <= METHODS_OF_THE_FIRST_RELEASE


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
