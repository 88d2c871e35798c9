"""Only the test file system is ever filled."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.chaos.environment import disk
from ops.chaos.environment.disk import DiskVolume


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskVolume:
    """A volume on a machine where mounting fails."""
    monkeypatch.setattr(disk, "_ran", lambda *command: False)
    return DiskVolume(tmp_path / "servers")


def test_without_a_mount_servers_write_to_the_normal_file_system(volume: DiskVolume) -> None:
    volume.mount()
    assert not volume.mounted
    assert list(volume.folder.parent.iterdir()) == [volume.folder]
    (volume.folder / "data").write_text("kept")
    volume.unmount()
    volume.unmount()
    assert (volume.folder / "data").read_text() == "kept"


def test_a_disk_that_is_not_mounted_is_never_filled(volume: DiskVolume) -> None:
    volume.mount()
    with pytest.raises(RuntimeError):
        volume.fill()
    assert list(volume.folder.iterdir()) == []


def test_the_volume_is_filled_to_the_last_block_and_freed(
    volume: DiskVolume, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [100_000]

    def allocate(_file: int, _at: int, size: int) -> None:
        if size > left[0]:
            raise OSError("No space left on device")
        left[0] -= size

    monkeypatch.setattr(disk, "_ran", lambda *command: True)
    monkeypatch.setattr("os.posix_fallocate", allocate)
    volume.mount()
    volume.fill()
    assert left[0] < disk.SMALLEST_BYTES
    volume.free()
    volume.unmount()
    assert list(volume.folder.iterdir()) == []
