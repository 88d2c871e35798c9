"""Customers' addresses for webhooks and decisions: checked when they are set, and again at every call."""

from __future__ import annotations

from typing import Final

from actors.egress.target import TargetRefusedError
from api.access.tokens import Caller
from api.http.problems import FieldError, Refusal
from api.services import Services

_DETAILS: Final = {
    "malformed": "The address must consist of visible ASCII characters, without backslashes.",
    "scheme": "The address must start with https://.",
    "userinfo": "The address must not hold user information.",
    "fragment": "The address must not hold a fragment.",
    "host": "The host must be a plain name (in its xn-- form where needed), or an address in its usual form.",
    "port": "The port must be 443, or 1024 and above.",
    "unresolvable": "The host name has no address at present.",
    "address": "The host has an address outside the public internet.",
}


async def require_callable(services: Services, caller: Caller, url: str | None, member: str) -> None:
    """Check that ``url``, the body's ``member``, may be called in the caller's mode; ``None`` passes. Raises
    ``Refusal`` 400 that names the reason and neither the address nor the URL.
    """
    if url is None:
        return
    try:
        await services.egress.check(url, live=caller.live, party=caller.tenant_id)
    except TargetRefusedError as refused:
        detail = _DETAILS[refused.reason]
        errors = [FieldError(f"/{member}", refused.reason, detail)]
        raise Refusal("target-refused", detail, errors=errors) from None
