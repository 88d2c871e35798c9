"""Passwords of the embedded servers: generated once, kept in the installation's ``keys`` folder, readable by
its owner only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def password_file(path: Path) -> str:
    """The password in ``path``, generated on first use. The caller holds the installation's lock."""
    if path.exists():
        return path.read_text("ascii").strip()
    password = secrets.token_urlsafe(32)
    write_private(path, password + "\n")
    return password


def write_private(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` atomically, with access for its owner only; creates the folder if needed."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
