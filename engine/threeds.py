"""3-D Secure evidence: whether an authentication value has the form that EMV 3-D Secure prescribes.

The access control server that issues authentication values (CAVV, AAV) belongs to another party, so its
cryptogram cannot be recomputed without a key of that party. Only the form is checked: the value must be
20 bytes in base64 (28 characters) and must come with the directory server's transaction id (a UUID). Such a
value is ``present``; it is not verified.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from engine.ids import is_id

_VALUE: Final = re.compile(r"[A-Za-z0-9+/]{26}[AEIMQUYcgkosw048]=", re.ASCII)
"""Twenty bytes in base64: the last digit before the padding has its two lowest bits clear."""


def check_evidence(
    auth_value: str | None, threeds_ref: str | None
) -> Literal["absent", "present", "malformed"]:
    """The outcome of the 3DS check of DE48 tags 02 and 03; one tag without the other is malformed."""
    if auth_value is None and threeds_ref is None:
        return "absent"
    if auth_value is None or threeds_ref is None:
        return "malformed"
    complete = _VALUE.fullmatch(auth_value) is not None and is_id(threeds_ref.lower())
    return "present" if complete else "malformed"
