"""Which request a response answers.

Answers may come in any order; they are matched by acquirer, STAN, transmission time and retrieval reference
(DE32, DE11, DE7, DE37) and by the class and the function of the message, because reversals and advices may
quote their original's references. Network management messages carry only some of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from engine.iso8583.message import Message

Token = TypeVar("Token")
_REQUESTS: Final = {"1": "0", "3": "2"}
"""Function of a response, and of the request it answers."""

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
    """The requests of one connection that wait for their answers, each with a token of its sender."""

    __slots__ = ("_tokens",)

    def __init__(self) -> None:
        self._tokens: dict[Key, Token] = {}

    def __len__(self) -> int:
        return len(self._tokens)

    def add(self, request: Message, token: Token) -> Token | None:
        """Remembers ``request``; returns the token of an equal one that still waits, which stays in place."""
        existing = self._tokens.setdefault(matching_key(request), token)
        return None if existing is token else existing

    def take(self, response: Message) -> Token | None:
        """The token of the request that ``response`` answers, once."""
        return self._tokens.pop(matching_key(response), None)

    def forget(self, request: Message) -> None:
        """Stops waiting for the answer to ``request``."""
        self._tokens.pop(matching_key(request), None)

    def drain(self) -> Iterator[Token]:
        """All tokens that wait; afterwards none does."""
        tokens, self._tokens = self._tokens, {}
        return iter(tokens.values())
