"""Message authentication codes (MAC): DE64, or DE128 in a message with fields above 64.

A MAC is the last field of its message. It covers every byte from the MTI to the byte before the MAC; the
length and the header that a transport adds are not covered. Its value has 8 bytes: 16 hexadecimal digits in a
``Message``.

The ciphers are arguments, because only ``actors.vault`` handles keys and ciphers. ``actors.vault.mac_of`` is
``mac_of`` with its ciphers.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from engine.cvv import EncryptBlock
from engine.iso8583.elements import ElementError

MacAlgorithm = Literal["iso9797-alg3", "iso9797-alg3-pad2", "aes-cmac"]
"""``iso9797-alg3``: retail MAC, ISO/IEC 9797-1 algorithm 3 with DES and padding method 1 (zeros), as ANSI
X9.19 has it. ``iso9797-alg3-pad2``: the same with padding method 2 (80, then zeros). ``aes-cmac``: NIST SP
800-38B, the leftmost 8 bytes."""

KEY_BYTES: Final[Mapping[str, tuple[int, ...]]] = {
    "iso9797-alg3": (16,),
    "iso9797-alg3-pad2": (16,),
    "aes-cmac": (16, 24, 32),
}
"""Algorithm to the lengths of its keys. A retail MAC has two DES keys."""

MAC_BYTES: Final = 8
MAC_CHARS: Final = 2 * MAC_BYTES
PRIMARY: Final = 64
SECONDARY: Final = 128
PLACEHOLDER: Final = "0" * MAC_CHARS
"""Value of the MAC's field while a message is encoded; ``with_mac`` replaces it."""

_BLOCK_BYTES: Final = 8
_DES_KEY_BYTES: Final = 8
_DIGITS: Final = re.compile(rf"[0-9A-Fa-f]{{{MAC_CHARS}}}", re.ASCII)

Cipher = Callable[[bytes, bytes], bytes]


class MacCiphers(NamedTuple):
    """The ciphers of the algorithms; each takes a key and data."""

    des_chain: Cipher
    """The last block of DES in CBC mode under an 8-byte key and a zero vector; the data are one or more whole
    blocks."""
    tdes_block: EncryptBlock
    aes_cmac: Cipher
    """The whole AES-CMAC, 16 bytes."""


class MacKeyError(ValueError):
    """The algorithm is unknown, or the key does not fit it. The message contains no part of the key."""


def check_key(algorithm: str, key: bytes) -> None:
    """Raise ``MacKeyError`` unless ``key`` is a key of ``algorithm``."""
    sizes = KEY_BYTES.get(algorithm)
    if sizes is None:
        raise MacKeyError(f"the MAC algorithm is none of {', '.join(KEY_BYTES)}")
    if len(key) not in sizes:
        allowed = " or ".join(map(str, sizes))
        raise MacKeyError(f"a key of {algorithm} has {allowed} bytes, not {len(key)}")


def mac_of(algorithm: str, key: bytes, data: bytes, ciphers: MacCiphers) -> bytes:
    """The MAC of ``data``: 8 bytes. ``data`` are the covered bytes of a message (``covered``). Raises
    ``MacKeyError``."""
    check_key(algorithm, key)
    if algorithm == "aes-cmac":
        return ciphers.aes_cmac(key, data)[:MAC_BYTES]
    padded = _padded(data, b"\x80" if algorithm == "iso9797-alg3-pad2" else b"")
    chained, last = padded[:-_BLOCK_BYTES], padded[-_BLOCK_BYTES:]
    if chained:
        state = ciphers.des_chain(key[:_DES_KEY_BYTES], chained)
        last = bytes(left ^ right for left, right in zip(state, last, strict=True))
    # The last block passes DES under the first key, its inverse under the second and DES under the first.
    return ciphers.tdes_block(key, last)


def covered(payload: bytes, size: int = MAC_CHARS) -> bytes:
    """The bytes of an encoded message that its MAC covers. ``size``: the length of the MAC on the wire, 16 as
    hexadecimal digits or 8 as bytes."""
    return payload[:-size]


def with_mac(payload: bytes, mac: bytes, size: int = MAC_CHARS) -> bytes:
    """``payload``, an encoded message that ends in ``PLACEHOLDER``, with ``mac`` in its place. ``size`` as
    for ``covered``."""
    return payload[:-size] + (mac if size == MAC_BYTES else mac.hex().upper().encode("ascii"))


def mac_field(fields: Mapping[int, str]) -> int:
    """The field that carries the MAC of a message with ``fields``: 128 if one is above 64, else 64."""
    return SECONDARY if any(number > PRIMARY for number in fields) else PRIMARY


def presented_mac(fields: Mapping[int, str]) -> bytes | None:
    """The MAC of a message; ``None`` if it has none. Raises ``ElementError`` for a MAC that is not the last
    field or not 16 hexadecimal digits."""
    number = mac_field(fields)
    if number == SECONDARY and PRIMARY in fields:
        raise ElementError(PRIMARY, "is not the last field")
    text = fields.get(number)
    if text is None:
        return None
    if _DIGITS.fullmatch(text) is None:
        raise ElementError(number, "is no MAC")
    return bytes.fromhex(text)


def same_mac(presented: bytes, expected: bytes) -> bool:
    """Whether both are equal, compared in constant time."""
    return hmac.compare_digest(presented, expected)


def _padded(data: bytes, mark: bytes) -> bytes:
    """``data``, ``mark`` and zeros up to whole blocks, at least one."""
    marked = data + mark
    blocks = max(1, -(-len(marked) // _BLOCK_BYTES))
    return marked.ljust(blocks * _BLOCK_BYTES, b"\0")
