"""A request as operations read it: a strict JSON body, and query parameters that are given once.

FastAPI's own parser takes duplicate names, NaN and unbounded bodies. So the body is read here before FastAPI
asks for it, and FastAPI is given the value.
"""

from __future__ import annotations

from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request

from api.http.json_body import read_json
from api.http.problems import Refusal


class StrictRequest(Request):
    """The request of one operation; ``read_body`` or ``require_single_parameters`` comes first."""

    _value: Any = None
    _absent: Any = None

    async def read_body(self, *, absent: Any) -> None:
        """Read the body; ``absent`` is validated in the place of one that is left out, or ``null``. Raises
        ``Refusal`` 400, 408, 413 or 415."""
        self._value, self._absent = await read_json(self), absent

    def require_single_parameters(self) -> None:
        """Raise ``Refusal`` 400 when a query parameter is given twice: receivers would disagree about which
        one counts."""
        if len(self.query_params) != len(self.query_params.multi_items()):
            raise Refusal("validation-failed", "A query parameter is given more than once.")

    @property
    def value(self) -> Any:
        """The value of the body as it was sent, ``None`` for an empty one."""
        return self._value

    async def body(self) -> bytes:
        """For FastAPI, which asks whether there is a body before it asks for its value."""
        return b"null"

    async def json(self) -> Any:
        """For FastAPI: the value to validate."""
        return self._absent if self._value is None else self._value

    @property
    def headers(self) -> Headers:
        """All but the body's media type: ``read_body`` has judged it, and FastAPI knows fewer types."""
        if not hasattr(self, "_headers"):
            kept = [each for each in self.scope["headers"] if each[0] != b"content-type"]
            self._headers = Headers(raw=kept)
        return self._headers
