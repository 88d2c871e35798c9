"""Records what jspos, an implementation from npm, encodes: a digest for each block of random messages.

``make codecs`` runs it. It also checks that jspos decodes each message to the same fields. The tests
need no Node.js: they compare the digests of the platform's own encodings (``tests/conformance/test_codecs``).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.support.conformance.dialects import DIALECTS, Dialect
from tests.support.conformance.random_messages import messages
from tests.support.conformance.recorded import BLOCK, COUNT, PATH, SEED, digests

HERE: Final = Path(__file__).parent
_FIELDS_READ: Final = 64
"""jspos does not recognize a secondary bitmap in hexadecimal, so it cannot decode higher fields."""


def profile(dialect: Dialect) -> dict[str, Any]:
    """The dialect as ``codecs.js`` takes it."""
    packed = dialect.name == "iso87-binary"
    raw = dialect.name in ("iso87-binary", "iso87-ebcdic")
    fields = []
    for key, entry in dialect.spec.items():
        if not key.isdecimal() or key in ("1", "65"):
            continue
        kind, prefix, size = dialect.kind(int(key)), entry["len_type"], entry["max_len"]
        if prefix and packed:
            prefix = 2 if size < 100 else 3
        fields.append([int(key), "digits" if kind == "track" else kind, size, prefix])
    return {
        "text": "ebcdic" if dialect.name == "iso87-ebcdic" else "ascii",
        "digits": "bcd" if packed else "text",
        "bytes": "raw" if raw else "hex",
        "bitmap": "raw" if raw else "hex",
        "fields": fields,
    }


class Jspos:
    """A process of ``codecs.js``."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            ["node", HERE / "codecs.js"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._send({name: profile(dialect) for name, dialect in DIALECTS.items()})

    def encode(self, name: str, mti: str, fields: dict[str, str]) -> bytes:
        return bytes.fromhex(self._ask(["encode", name, mti, fields]))

    def decode(self, name: str, payload: bytes) -> tuple[str, dict[str, str]]:
        read = self._ask(["decode", name, payload.hex()])
        return read["mti"], read["fields"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _ask(self, request: Any) -> Any:
        self._send(request)
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def _send(self, request: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()


def encodings(jspos: Jspos, dialect: Dialect) -> Iterator[bytes]:
    """jspos's encoding of each message, after it has decoded it to the same fields. It packs separators of
    tracks wrongly, so they are left out."""
    hexadecimal = profile(dialect)["bitmap"] == "hex"
    for mti, fields in messages(dialect, COUNT, SEED, separators=False):
        payload = jspos.encode(dialect.name, mti, fields)
        if hexadecimal and max(map(int, fields)) > _FIELDS_READ:
            yield payload
            continue
        read = jspos.decode(dialect.name, payload)
        if read != (mti, fields):
            differing = sorted(key for key in {*fields, *read[1]} if fields.get(key) != read[1].get(key))
            raise AssertionError(f"{dialect.name}: jspos decodes fields {differing} to other values")
        yield payload


def main() -> None:
    jspos = Jspos()
    try:
        recorded = {name: digests(encodings(jspos, dialect)) for name, dialect in DIALECTS.items()}
    finally:
        jspos.close()
    PATH.write_text(json.dumps(recorded, indent=1) + "\n", "utf-8")
    print(f"recorded {COUNT} messages of {len(recorded)} profiles in blocks of {BLOCK}")


if __name__ == "__main__":
    main()
