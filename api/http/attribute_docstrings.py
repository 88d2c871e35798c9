"""Descriptions of a model's members from the docstrings below them, read when the model is first used.

Pydantic's own ``use_attribute_docstrings`` looks for the source text of every class while its module is
imported, which is a fifth of an API server's start.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any, Final

from pydantic import BaseModel, GetCoreSchemaHandler

Docstrings = Mapping[str, str]
"""Texts by the names of members."""

_NONE: Final[Docstrings] = {}


def describe_members(model: type[BaseModel]) -> None:
    """Describe the members of ``model`` by their docstrings, also those of its bases. A field keeps the
    description that it has."""
    for base in model.__mro__:
        texts = _docstrings(base.__module__).get(base.__qualname__, _NONE)
        for name, text in texts.items():
            field = model.__pydantic_fields__.get(name)
            if field is not None and field.description is None:
                field.description = text


@cache
def _docstrings(module: str) -> Mapping[str, Docstrings]:
    """The docstrings of all classes of ``module``, by qualified name; empty without its source."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError):
        return {}
    return {name: dict(_members(node)) for name, node in _classes(tree, "")}


def _classes(parent: ast.AST, prefix: str) -> Iterator[tuple[str, ast.ClassDef]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.ClassDef):
            yield prefix + node.name, node
            yield from _classes(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(node, f"{prefix}{node.name}.<locals>.")


def _members(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for pair in pairwise(node.body):
        match pair:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)


class Described(BaseModel):
    """Base of models whose members are described by the docstrings below them."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler, /) -> Any:
        describe_members(cls)
        return handler(source)
