"""Starting a local Ray: retries on a busy machine, and a folder that no other user can enter. No Ray."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
import ray

from actors.cluster import ray_session as module
from actors.cluster.environment import ClusterError, token_file
from actors.cluster.fork_server_process import ForkServer
from actors.cluster.ray_session import FOLDER_FILE, join, leave
from actors.settings import Settings


class FakeStart:
    """Replaces the start of Ray; the first ``failures`` starts time out."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.folders: list[Path] = []

    def __call__(self, settings: Settings, folder: Path, _fork_server: ForkServer | None) -> None:
        self.folders.append(folder)
        if len(self.folders) <= self.failures:
            raise Exception("The current node timed out during startup.\nThis could happen because ...")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(module, "prepare", lambda _settings: None)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(module, "FOLDERS", tmp_path / "tmp")
    return Settings.load(var_dir=tmp_path / "var")


def start(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Start Ray; returns its folder."""
    settings.var_dir.mkdir(exist_ok=True)
    ray = FakeStart(0)
    monkeypatch.setattr(module, "_start_local", ray)
    join(settings)
    return ray.folders[0]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize(("failures", "starts"), [(0, 1), (1, 2)])
def test_start_that_times_out_is_retried(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, failures: int, starts: int
) -> None:
    settings.var_dir.mkdir()
    ray = FakeStart(failures)
    monkeypatch.setattr(module, "_start_local", ray)
    join(settings)
    assert len(ray.folders) == starts


def test_failed_start_is_reported_in_one_line(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.var_dir.mkdir()
    monkeypatch.setattr(module, "_start_local", FakeStart(9))
    with pytest.raises(ClusterError) as raised:
        join(settings)
    assert str(raised.value) == "Ray does not start: The current node timed out during startup."


def test_folder_is_random_and_closed_to_other_users(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start(settings, monkeypatch)
    assert mode(first) == 0o700
    assert first.stat().st_uid == os.geteuid()
    assert mode(settings.var_dir / FOLDER_FILE) == 0o600
    assert start(settings, monkeypatch) != first


def test_socket_paths_fit_into_107_bytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    session = "session_2026-11-22_18-00-42_660867_4194304/sockets/plasma_store"
    folder = module._make_folder(Settings.load(var_dir=tmp_path))
    assert len(str(folder / "ray" / session)) <= 107
    folder.rmdir()


def test_token_is_readable_by_this_user_only_and_survives_a_restart(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(settings, monkeypatch)
    file = token_file(settings)
    token = file.read_text()
    assert (mode(file), mode(file.parent), len(token)) == (0o600, 0o700, 64)
    file.chmod(0o644)
    start(settings, monkeypatch)
    assert file.read_text() == token
    assert mode(file) == 0o600


def test_folder_of_a_killed_supervisor_is_removed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphaned = start(settings, monkeypatch)
    (orphaned / "ray").mkdir()
    current = start(settings, monkeypatch)
    assert not orphaned.exists()
    leave(settings)
    assert not current.exists()
    assert not (settings.var_dir / FOLDER_FILE).exists()


@pytest.mark.parametrize("kind", ["elsewhere", "a link", "open to others", "another name"])
def test_foreign_folder_is_not_removed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir(mode=0o700)
    named = module.FOLDERS / "stanchion-1"
    match kind:
        case "elsewhere":
            named = precious
        case "a link":
            named.symlink_to(precious)
        case "open to others":
            named.mkdir()
            named.chmod(0o755)
        case _:
            named = module.FOLDERS / "other"
            named.mkdir(mode=0o700)
    settings.var_dir.mkdir()
    (settings.var_dir / FOLDER_FILE).write_text(str(named))
    start(settings, monkeypatch)
    assert precious.exists()
    assert named.exists()


def test_no_thread_asks_a_lost_head_without_a_pause(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ray's thread for errors of tasks ends when this event is set; else it uses most of a processor while
    the head is away."""
    stopped = threading.Event()
    monkeypatch.setattr(ray._private.worker.global_worker, "threads_stopped", stopped)
    monkeypatch.setattr(ray, "init", lambda **_options: None)
    module._start_local(settings, tmp_path)
    assert stopped.is_set()
    stopped.clear()
    monkeypatch.setattr(module, "_probe", lambda _address: None)
    module._join_cluster("127.0.0.1:1", "none")
    assert stopped.is_set()
