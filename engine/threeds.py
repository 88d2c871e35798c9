"""3-D Secure evidence: the authentication value (CAVV, AAV) and its reference.

An access control server issues authentication values. Its own cryptogram can be verified only with its key. A
programme whose server shares a key with Stanchion gets HMAC-based values: 20 bytes, of which the server
chooses the first 12, and the last 8 are the leftmost bytes of ``HMAC-SHA256(key, number | reference | first
12)``, with the card number in ASCII digits and the reference as the 16 bytes of its UUID. Such a value is
``valid`` or ``invalid``. Without a key only the form is checked (20 bytes in base64, with the directory
server's transaction id, a UUID): the value is ``present``, which says nothing about the cardholder.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Sequence
from typing import Final, Literal

from engine.ids import is_id

VALUE_BYTES: Final = 20
CODE_BYTES: Final = 8
OWN_BYTES: Final = VALUE_BYTES - CODE_BYTES
"""Bytes that the access control server chooses."""
KEY_BYTES: Final = 32

_VALUE: Final = re.compile(r"[A-Za-z0-9+/]{26}[AEIMQUYcgkosw048]=", re.ASCII)
"""Twenty bytes in base64: the last digit before the padding has its two lowest bits clear."""

Authentication = Literal["absent", "present", "malformed", "valid", "invalid"]


def check_evidence(
    auth_value: str | None, threeds_ref: str | None, pan: str, keys: Sequence[bytes] = ()
) -> Authentication:
    """The outcome of the 3DS check of DE48 tags 02 and 03; one tag without the other is malformed. ``keys``:
    those of the programme, the current one and its predecessor."""
    if auth_value is None and threeds_ref is None:
        return "absent"
    if auth_value is None or threeds_ref is None:
        return "malformed"
    reference = threeds_ref.lower()
    if _VALUE.fullmatch(auth_value) is None or not is_id(reference):
        return "malformed"
    if not keys:
        return "present"
    value = base64.b64decode(auth_value[:])
    own, code = value[:OWN_BYTES], value[OWN_BYTES:]
    found = [hmac.compare_digest(_code(key, pan, reference, own), code) for key in keys]
    return "valid" if any(found) else "invalid"


def authentication_value(key: bytes, pan: str, threeds_ref: str, own: bytes) -> str:
    """The HMAC-based value for a card and a reference, in base64; ``own``: 12 bytes."""
    if len(own) != OWN_BYTES:
        raise ValueError(f"an authentication value has {OWN_BYTES} bytes of its own")
    return base64.b64encode(own + _code(key, pan, threeds_ref.lower(), own)).decode("ascii")


def _code(key: bytes, pan: str, reference: str, own: bytes) -> bytes:
    # The number has 12 to 19 digits and ends at the separator; the other parts have a fixed length.
    data = b"".join((pan.encode("ascii"), b"|", bytes.fromhex(reference.replace("-", "")), own))
    return hmac.digest(key, data, "sha256")[:CODE_BYTES]
