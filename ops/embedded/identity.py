"""The user under which an embedded server runs. PostgreSQL refuses to run as root, but newcomers in
containers often are root.

Where the kernel permits user namespaces, root becomes nobody inside one, and files keep their owner.
Elsewhere (most container runtimes) the server runs as nobody, with a copy of its binaries in a folder that
every user can read.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import tempfile
from pathlib import Path

from ops.embedded.process import Identity, ServerError, launched

_OTHERS_MAY_ENTER = stat.S_IROTH | stat.S_IXOTH


def identity_for(data_dir: Path, probe: Path) -> Identity:
    """The identity for a server that owns ``data_dir``. ``probe``: a binary that supports ``--version``."""
    if os.geteuid() != 0:
        return "same"
    if data_dir.exists() and data_dir.stat().st_uid != 0:
        return "nobody"
    command = launched("namespace", signal.SIGKILL, [probe, "--version"])
    works = subprocess.run(command, capture_output=True, check=False, cwd="/").returncode == 0
    return "namespace" if works else "nobody"


def reachable_by_others(path: Path) -> bool:
    """Whether any user may read and enter ``path`` and every folder above it."""
    resolved = path.resolve()
    if resolved.stat().st_mode & _OTHERS_MAY_ENTER != _OTHERS_MAY_ENTER:
        return False
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in resolved.parents)


def reachable_copy(folders: list[Path], name: str) -> Path:
    """A folder with copies of ``folders`` that any user can read, created once for each ``name``, which
    contains the version.

    The temporary folder is writable by all users, so a copy is used only if it belongs to root and only root
    can change it.
    """
    target = Path(tempfile.gettempdir()) / name
    if not target.exists():
        draft = Path(tempfile.mkdtemp(prefix=f".{name}."))
        for folder in folders:
            shutil.copytree(folder, draft / folder.name, symlinks=True)
        draft.chmod(0o755)
        try:
            draft.rename(target)
        except OSError:
            shutil.rmtree(draft)  # another process was first; its copy is checked below
    found = target.lstat()
    if (
        found.st_uid != os.geteuid()
        or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        or not stat.S_ISDIR(found.st_mode)
    ):
        raise ServerError(f"{target} was not made by this program; remove it")
    return target
