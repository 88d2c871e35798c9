"""The request class of operations: strict JSON bodies, no repeated query parameters.

FastAPI's parser accepts duplicate names, NaN and bodies of any size. Therefore ``read_body`` reads the body
first, and FastAPI gets the parsed value.
"""

from __future__ import annotations

from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request

from api.http.json_body import read_json
from api.http.problems import Refusal


class StrictRequest(Request):
    """Call ``read_body`` or ``require_single_parameters`` before FastAPI handles the request."""

    _value: Any = None
    _absent: Any = None

    async def read_body(self, *, absent: Any) -> None:
        """Read and parse the body. FastAPI validates ``absent`` instead of an empty body or ``null``. Raises
        ``Refusal`` 400, 408, 413 or 415."""
        self._value, self._absent = await read_json(self), absent

    def require_single_parameters(self) -> None:
        """Raise ``Refusal`` 400 for a repeated query parameter: parsers disagree about which value counts."""
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
        """All headers except Content-Type. ``read_body`` has checked it; FastAPI accepts fewer JSON types."""
        if not hasattr(self, "_headers"):
            kept = [each for each in self.scope["headers"] if each[0] != b"content-type"]
            self._headers = Headers(raw=kept)
        return self._headers
