"""3-D Secure evidence: what makes an authentication value acceptable.

The access control server that issues authentication values (CAVV, AAV) belongs to another party, so its
cryptogram cannot be recomputed here. What can be judged is judged: the value must have the form of EMV 3-D
Secure (20 bytes in base64, 28 characters) and must come with the directory server's transaction id (a
UUID).
"""

from __future__ import annotations

import re
from typing import Final, Literal

from engine.ids import is_id

_VALUE: Final = re.compile(r"[A-Za-z0-9+/]{26}[AEIMQUYcgkosw048]=", re.ASCII)
"""Twenty bytes in base64: the last digit before the padding has its two lowest bits clear."""


def judge(auth_value: str | None, threeds_ref: str | None) -> Literal["absent", "valid", "invalid"]:
    """The outcome of the 3DS check of DE48 tags 02 and 03; half of the evidence is none."""
    if auth_value is None and threeds_ref is None:
        return "absent"
    if auth_value is None or threeds_ref is None:
        return "invalid"
    complete = _VALUE.fullmatch(auth_value) is not None and is_id(threeds_ref.lower())
    return "valid" if complete else "invalid"
