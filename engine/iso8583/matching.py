"""Matches responses to open requests.

Responses may arrive in any order. They match by acquirer, STAN, transmission time and retrieval reference
(DE32, DE11, DE7, DE37), and by class and function of the message, because reversals and advices may have the
references of their original. Network management messages have only some of these fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from engine.iso8583.message import Message

Token = TypeVar("Token")
_REQUESTS: Final = {"1": "0", "3": "2"}
"""Function digit of a request, by the function digit of its response."""

Key = tuple[str, str, str | None, str | None, str | None, str | None]


def matching_key(message: Message) -> Key:
    """Equal for a request, its repeats and their response."""
    fields = message.fields
    function = message.mti[2]
    return (
        message.mti[1],
        _REQUESTS.get(function, function),
        fields.get(32),
        fields.get(11),
        fields.get(7),
        fields.get(37),
    )


class Unanswered(Generic[Token]):
    """The open requests of one connection, each with a token of its sender."""

    __slots__ = ("_tokens",)

    def __init__(self) -> None:
        self._tokens: dict[Key, Token] = {}

    def __len__(self) -> int:
        return len(self._tokens)

    def add(self, request: Message, token: Token) -> Token | None:
        """Add ``request``. If an equal request is open, it keeps its token, which is returned."""
        existing = self._tokens.setdefault(matching_key(request), token)
        return None if existing is token else existing

    def take(self, response: Message) -> Token | None:
        """Remove the request that ``response`` answers. Returns its token, or ``None`` without a match."""
        return self._tokens.pop(matching_key(response), None)

    def forget(self, request: Message) -> None:
        """Remove ``request``."""
        self._tokens.pop(matching_key(request), None)

    def drain(self) -> Iterator[Token]:
        """Remove all requests. Returns their tokens."""
        tokens, self._tokens = self._tokens, {}
        return iter(tokens.values())
