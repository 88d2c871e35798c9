"""Keys of a link's MAC, from ``links.toml`` or from a file that can change while the link is in use.

A file holds one or two keys in hexadecimal digits, separated by white space: the current one, then the one
before it. Both verify; this side uses the current one for messages of its own.
"""

from __future__ import annotations

from actors.network.links.entry import MacEntry
from engine.iso8583.mac import MacKeyError
from engine.limits import LINK_MAC_KEYS_MAX


def read_keys(entry: MacEntry) -> tuple[bytes, ...]:
    """The keys, the current one first. Raises ``MacKeyError``, whose text contains no part of a key."""
    if entry.key is not None:
        return (entry.key,)
    assert entry.file is not None, "an entry has a key or a file"
    try:
        words = entry.file.read_text("ascii").split()
    except OSError as failure:
        raise MacKeyError(f"is no key in hexadecimal digits, nor a file ({failure.strerror})") from None
    except UnicodeDecodeError:
        raise MacKeyError("names a file that is not in hexadecimal digits") from None
    if not 0 < len(words) <= LINK_MAC_KEYS_MAX:
        raise MacKeyError(f"names a file with {len(words)} keys instead of 1 to {LINK_MAC_KEYS_MAX}")
    try:
        return tuple(bytes.fromhex(word) for word in words)
    except ValueError:
        raise MacKeyError("names a file that is not in hexadecimal digits") from None
