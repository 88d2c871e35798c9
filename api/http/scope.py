"""Data attached to a request: keys in its ASGI scope, and the tenant that it is for."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

REQUEST_ID: Final = "stanchion.request_id"
"""Scope key: the request's id, as in ``X-Request-Id``."""

OPERATION: Final = "stanchion.operation"
"""Scope key: the operation's name. A request that has reached no operation is counted as ``other``."""

ARRIVED: Final = "stanchion.arrived"
"""Scope key: whether the whole request has arrived, so that its body needs no deadline."""

SESSION_CALLER: Final = "stanchion.session_caller"
"""Scope key: the ``Caller`` of a console session, for calls that the console makes in process. HTTP requests
cannot set keys of the scope."""

PREFIX: Final = "stanchion.prefix"
"""Scope key: the path prefix under which a proxy serves this server, such as ``/cards``; empty without
one. ``path`` never has it, so it is not ``root_path`` of ASGI."""

TENANT: Final[ContextVar[str | None]] = ContextVar("tenant", default=None)
"""The tenant that the current request is for; ``None`` is the server itself."""
