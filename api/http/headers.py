"""Read one header from the ASGI scope; building Starlette's ``Headers`` would cost more than using the
value."""

from __future__ import annotations

from starlette.requests import Request


def header(request: Request, name: bytes) -> str | None:
    """The first header of that ``name``, in lower case as servers give it, or ``None``."""
    for given, value in request.scope["headers"]:
        if given == name:
            text: str = value.decode("latin-1")
            return text
    return None
