"""Declare an operation of the API once and get a method in both clients.

A function describes the call: it returns a ``Call``. A decorator names the operation and turns the function
into a method, which returns the answer in the blocking client and a coroutine in the asynchronous one.

>>> class Cards(Resource[AnyTransport]):
...     @operation("GET", "/v1/cards/{id}")
...     def get(self, id_: str) -> Call[records.Card]:
...         return Call(id_)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from functools import update_wrapper
from types import MethodType
from typing import Any, Concatenate, Final, Generic, Literal, ParamSpec, TypeVar, overload
from urllib.parse import quote

from stanchion.compat import Self
from stanchion.protocol import Actions
from stanchion.transport import AsyncTransport, Transport

P = ParamSpec("P")
T = TypeVar("T")
AnyTransport = TypeVar("AnyTransport", bound=Transport | AsyncTransport)
PAGE_SIZE: Final = 100
"""Default number of rows in a page: the API's maximum."""
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True)
class Call(Generic[T]):
    """One call of an operation. ``T`` is the type of its answer, or of one row if the answer is a list."""

    id: str | None = None
    """The id in the path."""
    body: Mapping[str, Any] | None = None
    query: Mapping[str, Any] | None = None
    key: str | None = None
    """Idempotency key; ``None`` generates a new one."""
    member: str | None = None
    """The member of the answer to return; ``None`` returns the whole answer."""

    def path(self, template: str) -> str:
        """``template`` with the id, quoted so that it cannot change the path."""
        return template if self.id is None else template.replace("{id}", quote(self.id, safe=""))

    def result(self, body: Any) -> T:
        """The requested part of the answer's body."""
        part: T = body if self.member is None else body[self.member]
        return part


class Resource(Generic[AnyTransport]):
    """The operations of one kind of resource.

    Every method may raise ProblemError or NoAnswerError. Pass ``idempotency_key`` if you want to repeat the
    call after a crash; otherwise each call gets a new key.
    """

    def __init__(self, transport: AnyTransport) -> None:
        self.transport = transport


class Operation(Generic[P, T]):
    """A method for one operation."""

    def __init__(self, method: str, path: str, prepare: Callable[Concatenate[Any, P], Call[T]]) -> None:
        self.method = method
        self.path = path
        self.prepare = prepare
        self.__doc__ = prepare.__doc__

    def actions(self, resource: Resource[Any], *args: P.args, **kwargs: P.kwargs) -> Actions[T]:
        """The actions of the operation, for use inside a workflow."""
        call = self.prepare(resource, *args, **kwargs)
        protocol = resource.transport.protocol
        body = yield from protocol.request(
            self.method, call.path(self.path), body=call.body, query=call.query, key=call.key
        )
        return call.result(body)

    @overload
    def __get__(self, resource: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, resource: Resource[Transport], owner: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, resource: Resource[AsyncTransport], owner: type[Any]
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, resource: Resource[Any] | None, owner: type[Any]) -> Any:
        if resource is None:
            return self

        def bound(*args: P.args, **kwargs: P.kwargs) -> Any:
            return resource.transport.run(self.actions(resource, *args, **kwargs))

        return update_wrapper(bound, MethodType(self.prepare, resource))


class Rows(Generic[P, T]):
    """A method that iterates over a list, newest first."""

    def __init__(self, path: str, prepare: Callable[Concatenate[Any, P], Call[T]]) -> None:
        self.method = "GET"
        self.path = path
        self.prepare = prepare
        self.__doc__ = prepare.__doc__

    @overload
    def __get__(self, resource: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, resource: Resource[Transport], owner: type[Any]) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(
        self, resource: Resource[AsyncTransport], owner: type[Any]
    ) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, resource: Resource[Any] | None, owner: type[Any]) -> Any:
        if resource is None:
            return self

        def bound(*args: P.args, **kwargs: P.kwargs) -> Any:
            call = self.prepare(resource, *args, **kwargs)
            return resource.transport.walk(call.path(self.path), call.query)

        return update_wrapper(bound, MethodType(self.prepare, resource))


class Workflow(Generic[P, T]):
    """A method that performs several operations."""

    def __init__(self, actions: Callable[Concatenate[Any, P], Actions[T]]) -> None:
        self.actions = actions
        self.__doc__ = actions.__doc__

    @overload
    def __get__(self, resource: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, resource: Resource[Transport], owner: type[Any]) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, resource: Resource[AsyncTransport], owner: type[Any]
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, resource: Resource[Any] | None, owner: type[Any]) -> Any:
        if resource is None:
            return self

        def bound(*args: P.args, **kwargs: P.kwargs) -> Any:
            return resource.transport.run(self.actions(resource, *args, **kwargs))

        return update_wrapper(bound, MethodType(self.actions, resource))


def operation(
    method: Method, path: str
) -> Callable[[Callable[Concatenate[Any, P], Call[T]]], Operation[P, T]]:
    """Decorate a function that prepares a call of this operation; ``{id}`` in ``path`` is the call's id."""

    def declare(prepare: Callable[Concatenate[Any, P], Call[T]]) -> Operation[P, T]:
        return Operation(method, path, prepare)

    return declare


def rows(path: str) -> Callable[[Callable[Concatenate[Any, P], Call[T]]], Rows[P, T]]:
    """Decorate a function that prepares a call of this list."""

    def declare(prepare: Callable[Concatenate[Any, P], Call[T]]) -> Rows[P, T]:
        return Rows(path, prepare)

    return declare


def workflow(actions: Callable[Concatenate[Any, P], Actions[T]]) -> Workflow[P, T]:
    """Decorate a generator of several actions."""
    return Workflow(actions)
