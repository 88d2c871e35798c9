"""Vendored files are unchanged and come with their licences."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from api.console.templating import static_files

FOLDER = Path(__file__).parents[3] / "api/console/static"


def test_vendored_files_match_their_checksums_and_have_licences() -> None:
    text = (FOLDER / "VENDORED.md").read_text("utf-8")
    rows = re.findall(
        r"^\| `([^`]+)` \| [^|]+ \| [^|]*\(`([^`]+)`\) \| ([0-9a-f]{64}) \|$", text, re.MULTILINE
    )
    assert len(rows) == 3
    for name, licence, checksum in rows:
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == checksum
        assert "Permission" in (FOLDER / licence).read_text("utf-8")
    minified = {name for name in static_files() if ".min." in name}
    assert minified == {name for name, _, _ in rows}
