"""What others have written is here unchanged, with its licence."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from api.console.routes import STATIC

FOLDER = Path(__file__).parents[3] / "api/console/static"


def test_vendored_files_are_what_was_published() -> None:
    text = (FOLDER / "VENDORED.md").read_text("utf-8")
    rows = re.findall(
        r"^\| `([^`]+)` \| [^|]+ \| [^|]*\(`([^`]+)`\) \| ([0-9a-f]{64}) \|$", text, re.MULTILINE
    )
    assert len(rows) == 3
    for name, licence, checksum in rows:
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == checksum
        assert "Permission" in (FOLDER / licence).read_text("utf-8")
    ours = {"console.css", "console.js"}
    assert {name for name, _, _ in rows} | ours == set(STATIC)
