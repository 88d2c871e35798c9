"""The signature of a delivery: ``t=<unix seconds>,v1=<hex HMAC-SHA256>`` (``ops/docs/WEBHOOKS.md``).

The signed text is the time, a full stop, and the raw body. The key is the UTF-8 of the whole secret including
``whsec_``. During a rotation the header has one ``v1`` for each active secret, and one match suffices. The
client verifies it (``stanchion.signature``).
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence
from typing import Final

HEADER: Final = "X-Platform-Signature"
SECRET_PREFIX: Final = "whsec_"
SECRET_RANDOM_BYTES: Final = 32


def secret_of(random: bytes) -> str:
    """The secret of ``SECRET_RANDOM_BYTES`` random bytes: visible ASCII without padding."""
    assert len(random) == SECRET_RANDOM_BYTES
    return SECRET_PREFIX + base64.urlsafe_b64encode(random).rstrip(b"=").decode("ascii")


def sign(body: bytes, secrets: Sequence[str], at_s: int) -> str:
    """The header's value for ``body`` signed at ``at_s`` (Unix seconds) with each of ``secrets``."""
    signed = b"%d.%b" % (at_s, body)
    return ",".join((f"t={at_s}", *(f"v1={_digest(secret, signed)}" for secret in secrets)))


def _digest(secret: str, signed: bytes) -> str:
    return hmac.digest(secret.encode(), signed, "sha256").hex()
