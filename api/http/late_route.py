"""Routes that FastAPI builds at their first use. Building all of them, with their models, would be half of
what an API server imports.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from threading import RLock
from typing import Annotated, Any, Final, get_args, get_origin

from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.routing import compile_path

_BUILDING: Final = RLock()
"""The description is generated in a thread, while the event loop serves requests."""


class LateRoute(APIRoute):
    """A route that first has only what choosing the route of a request needs. Reading any other attribute
    builds the rest."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        self.path, self.endpoint, self.name = path, endpoint, endpoint.__name__
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self.methods = set(options["methods"])
        self.include_in_schema = options["include_in_schema"]
        self._options = options
        self._is_built = False

    def __getattr__(self, name: str) -> Any:
        """An attribute of FastAPI's route."""
        with _BUILDING:
            if not self.__dict__.get("_is_built", True):
                self._is_built = True
                self._build(self._options)
        try:
            return self.__dict__[name]
        except KeyError:
            raise AttributeError(name) from None

    def _build(self, options: dict[str, Any]) -> None:
        """Build FastAPI's route. ``options``: the arguments of ``APIRoute``."""
        _complete_models(self.endpoint)
        super().__init__(self.path, self.endpoint, **options)


def _complete_models(endpoint: Callable[..., Any]) -> None:
    """Complete the models of the body and the query. FastAPI takes the descriptions of the query's members
    from them, and builds its validators at once only for complete models."""
    for parameter in inspect.signature(endpoint, eval_str=True).parameters.values():
        kind = parameter.annotation
        model = get_args(kind)[0] if get_origin(kind) is Annotated else kind
        if isinstance(model, type) and issubclass(model, BaseModel):
            model.model_rebuild()
