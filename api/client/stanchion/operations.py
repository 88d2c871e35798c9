"""How an operation of the API becomes a method of both clients, written once.

A function says what is asked of the API: it makes an ``Ask``. A decorator says which operation that is, and
turns the function into a method that returns the answer in a client that blocks, and is awaited in the other.

>>> class Cards(Family[Way]):
...     @operation("GET", "/v1/cards/{id}")
...     def get(self, id_: str) -> Ask[records.Card]:
...         return Ask(id_)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Final, Generic, Literal, ParamSpec, Self, TypeVar, overload
from urllib.parse import quote

from stanchion.conversation import Steps
from stanchion.transport import AsyncTransport, Transport

P = ParamSpec("P")
T = TypeVar("T")
Way = TypeVar("Way", bound=Transport | AsyncTransport)
PAGE_SIZE: Final = 100
"""Rows of a page, unless the caller says otherwise: as many as the API gives at most."""
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True)
class Ask(Generic[T]):
    """One call of an operation whose answer is a ``T``, or of a list of which each row is one."""

    id: str | None = None
    """In the path."""
    body: Mapping[str, Any] | None = None
    query: Mapping[str, Any] | None = None
    key: str | None = None
    """Idempotency key; ``None`` is a fresh one."""
    member: str | None = None
    """The one member of the answer that is meant, where it is not the answer as a whole."""

    def path(self, template: str) -> str:
        """``template`` with the id in its place, which cannot lead anywhere else."""
        return template if self.id is None else template.replace("{id}", quote(self.id, safe=""))

    def answer(self, body: Any) -> T:
        """What is meant of the answer's body."""
        meant: T = body if self.member is None else body[self.member]
        return meant


class Family(Generic[Way]):
    """The operations of one kind of resource. Every method may raise ProblemError or NoAnswerError;
    ``idempotency_key`` is your own, to be able to ask again after a crash, or else a fresh one."""

    def __init__(self, transport: Way) -> None:
        self.transport = transport


class Operation(Generic[P, T]):
    """A method that answers."""

    def __init__(self, method: str, path: str, ask: Callable[Concatenate[Any, P], Ask[T]]) -> None:
        self.method = method
        self.path = path
        self.ask = ask
        self.__doc__ = ask.__doc__

    def steps(self, family: Family[Any], *args: P.args, **kwargs: P.kwargs) -> Steps[T]:
        """The operation as a part of something longer."""
        ask = self.ask(family, *args, **kwargs)
        talk = family.transport.conversation
        body = yield from talk.request(
            self.method, ask.path(self.path), body=ask.body, query=ask.query, key=ask.key
        )
        return ask.answer(body)

    @overload
    def __get__(self, family: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, family: Family[Transport], owner: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, family: Family[AsyncTransport], owner: type[Any]
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, family: Family[Any] | None, owner: type[Any]) -> Any:
        if family is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return family.transport.run(self.steps(family, *args, **kwargs))

        return update_wrapper(call, MethodType(self.ask, family))


class Rows(Generic[P, T]):
    """A method that walks through a list, newest first."""

    def __init__(self, path: str, ask: Callable[Concatenate[Any, P], Ask[T]]) -> None:
        self.method = "GET"
        self.path = path
        self.ask = ask
        self.__doc__ = ask.__doc__

    @overload
    def __get__(self, family: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, family: Family[Transport], owner: type[Any]) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, family: Family[AsyncTransport], owner: type[Any]) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, family: Family[Any] | None, owner: type[Any]) -> Any:
        if family is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            ask = self.ask(family, *args, **kwargs)
            return family.transport.walk(ask.path(self.path), ask.query)

        return update_wrapper(call, MethodType(self.ask, family))


class Course(Generic[P, T]):
    """A method that takes several operations."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self.steps = steps
        self.__doc__ = steps.__doc__

    @overload
    def __get__(self, family: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, family: Family[Transport], owner: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, family: Family[AsyncTransport], owner: type[Any]
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, family: Family[Any] | None, owner: type[Any]) -> Any:
        if family is None:
            return self

        def call(*args: P.args, **kwargs: P.kwargs) -> Any:
            return family.transport.run(self.steps(family, *args, **kwargs))

        return update_wrapper(call, MethodType(self.steps, family))


def operation(
    method: Method, path: str
) -> Callable[[Callable[Concatenate[Any, P], Ask[T]]], Operation[P, T]]:
    """The decorated function asks for this operation; ``{id}`` stands for the id of its ``Ask``."""

    def declare(ask: Callable[Concatenate[Any, P], Ask[T]]) -> Operation[P, T]:
        return Operation(method, path, ask)

    return declare


def rows(path: str) -> Callable[[Callable[Concatenate[Any, P], Ask[T]]], Rows[P, T]]:
    """The decorated function asks for the rows of this list."""

    def declare(ask: Callable[Concatenate[Any, P], Ask[T]]) -> Rows[P, T]:
        return Rows(path, ask)

    return declare


def course(steps: Callable[Concatenate[Any, P], Steps[T]]) -> Course[P, T]:
    """The decorated function takes several steps."""
    return Course(steps)
