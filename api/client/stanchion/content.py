"""The content of an export while it is received: written to a file, and continued after a cut."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Mapping
from typing import BinaryIO, Final

import httpx2

from stanchion.errors import ContentError

GZIP_WINDOW: Final = 31
"""``wbits`` of zlib for a gzip stream."""


class Content:
    """Writes to ``file``, which must be seekable, from its current position.

    ``size``: bytes of the whole content; ``progress`` is called with the bytes that are written, and with
    ``size``.
    """

    def __init__(self, file: BinaryIO, size: int, progress: Callable[[int, int], object]) -> None:
        self.received = 0
        """Bytes received, as they are on the wire."""
        self._file = file
        self._begin = file.tell()
        self._size = size
        self._progress = progress
        self._written = 0
        self._digest = hashlib.sha256()
        self._unpacker: zlib._Decompress | None = None
        self._tag = ""

    def is_complete(self) -> bool:
        """Whether all bytes are written."""
        return self._written >= self._size and (self._unpacker is None or self._unpacker.eof)

    @property
    def sha256(self) -> str:
        """The digest of the written bytes, in hexadecimal."""
        return self._digest.hexdigest()

    def headers(self) -> dict[str, str]:
        """The headers of the next request: for all, or for the rest of the same content."""
        packed = {"Accept-Encoding": "gzip"}
        if not (self.received and self._tag):
            return packed
        return {**packed, "Range": f"bytes={self.received}-", "If-Range": self._tag}

    def begin(self, response: httpx2.Response) -> bool:
        """Whether the body of ``response`` is content. A status 200 begins again."""
        if response.status_code == 206:
            if not response.headers.get("content-range", "").startswith(f"bytes {self.received}-"):
                raise ContentError("the answer is another part of the content than requested")
            return True
        if response.status_code == 200:
            self._restart(response.headers)
            return True
        return False

    def add(self, piece: bytes) -> None:
        """Write the next bytes of the body. Raises ContentError, and OSError of the file."""
        self.received += len(piece)
        try:
            plain = piece if self._unpacker is None else self._unpacker.decompress(piece)
        except zlib.error:
            raise ContentError("the content is damaged") from None
        self._file.write(plain)
        self._digest.update(plain)
        self._written += len(plain)
        self._progress(self._written, self._size)

    def _restart(self, headers: Mapping[str, str]) -> None:
        self._file.seek(self._begin)
        self._file.truncate()
        self.received = self._written = 0
        self._digest = hashlib.sha256()
        packed = headers.get("content-encoding") == "gzip"
        self._unpacker = zlib.decompressobj(GZIP_WINDOW) if packed else None
        self._tag = headers.get("etag", "")
