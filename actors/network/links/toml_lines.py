"""Line numbers in a TOML file: ``tomllib`` reads values without their places."""

from __future__ import annotations

import re
from typing import Final

_HEADER: Final = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.\-]+)\s*\]\]?\s*(?:#.*)?")
_KEY: Final = re.compile(r"\s*([A-Za-z0-9_.\-\"']+)\s*=")


def line_of(text: str, array: str, index: int, field: str = "") -> int:
    """The line, from 1, of ``field`` (``port`` or ``tls.cert``) in entry ``index``, from 0, of the array of
    tables ``array``; the line of the entry's header, if the field is not written on a line of its own."""
    seen, prefix, header, parent = -1, "", 0, 0
    wanted = field.replace('"', "")
    for number, line in enumerate(text.splitlines(), start=1):
        found = _HEADER.fullmatch(line)
        if found is not None:
            name = found[2]
            if found[1] == "[[" and name == array:
                seen += 1
                prefix = ""
                header = number if seen == index else header
            else:
                prefix = name.removeprefix(f"{array}.") + "." if name.startswith(f"{array}.") else "\0"
                if seen == index and prefix[:-1] == wanted.partition(".")[0]:
                    parent = number
            continue
        key = _KEY.match(line)
        if key is None or seen != index:
            continue
        path = prefix + key[1].strip("\"'")
        if path == wanted:
            return number
        if wanted.startswith(f"{path}."):
            parent = number
    return parent or header or 1
