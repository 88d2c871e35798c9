"""Commands at the owners of their cards.

A message and its repeats are exchanges of one command. Each exchange gets a reply of the owner, in time or
after its deadline. After the last reply, the edge knows what it told the network about the command.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

import msgspec

from actors.network.exchange import Exchange, MessageCommand
from actors.network.open_exchanges import OpenExchanges
from engine.commands import Command
from engine.iso8583.respond import approves
from engine.replies import NotExecuted, Reply, WireAnswer

_UNAVAILABLE = NotExecuted("unavailable")


class Submit(Protocol):
    """Submits a command to the card's owner (``actors.router``)."""

    def __call__(self, command: Command, *, repeat: bool = False) -> Awaitable[Reply]:
        """``repeat``: the network marked the message as a repeat."""


class OpenCommand(msgspec.Struct):
    """One command at its owner."""

    command: MessageCommand
    waiting: int = 0
    """Exchanges without a reply."""
    withheld: bool = False
    """Whether the network asked for an answer after its deadline, and will advise its own decision."""
    answered: bool = False
    """Whether one exchange has given the owner's answer to the network in time."""
    outcome_unknown: bool = False
    """Whether the network missed the owner's answer to one exchange, so that the command may have been
    executed."""
    approved_late_minor: int | None = None
    """The amount of an approval that arrived after the deadline of its exchange."""


class OpenCommands:
    """Submits commands, and takes the replies to them. ``len``: commands that wait for a reply."""

    def __init__(
        self, submit: Submit, exchanges: OpenExchanges, ended: Callable[[OpenCommand], None]
    ) -> None:
        """``ended`` is called with each command when its last exchange has its reply."""
        self._submit = submit
        self._exchanges = exchanges
        self._ended = ended
        self._by_key: dict[bytes, OpenCommand] = {}
        self.pending: set[asyncio.Future[Any]] = set()
        """Submissions without a reply; the event loop itself holds only weak references to them."""

    def __len__(self) -> int:
        return len(self._by_key)

    def submit(self, exchange: Exchange, command: MessageCommand, repeat: bool) -> OpenCommand:
        """Submit ``command``, or the open one that it repeats. Raises what ``Submit`` raises; then nothing
        has changed."""
        open_command = self._by_key.get(command.command_key)
        if open_command is not None and open_command.command.fingerprint == command.fingerprint:
            command = open_command.command
        if exchange.span is None:
            reply = asyncio.ensure_future(self._submit(command, repeat=repeat))
        else:
            with exchange.span.current():
                submitted = self._submit(command, repeat=repeat)
            reply = asyncio.ensure_future(submitted)
        if open_command is None:
            open_command = self._by_key[command.command_key] = OpenCommand(command)
        open_command.waiting += 1
        self.pending.add(reply)
        reply.add_done_callback(partial(self._replied, exchange, command))
        return open_command

    def _replied(self, exchange: Exchange, command: MessageCommand, future: asyncio.Future[Reply]) -> None:
        """The owner has replied, before or after the deadline."""
        open_command = self._by_key[command.command_key]
        open_command.waiting -= 1
        self.pending.discard(future)
        failure = asyncio.CancelledError() if future.cancelled() else future.exception()
        if failure is not None:
            open_command.outcome_unknown = True
            self._exchanges.fail(exchange, failure)
        else:
            reply = future.result()
            open_command.outcome_unknown |= reply == _UNAVAILABLE
            if self._exchanges.close(exchange):
                if self._exchanges.answer(exchange, reply):
                    open_command.answered |= isinstance(reply, WireAnswer)
                else:
                    open_command.outcome_unknown = True
            elif isinstance(reply, WireAnswer) and approves(reply.response_code):
                # A stored approval counts as well: a former owner may have executed this command. If another
                # exchange got the approval, the owner does not execute the late reversal.
                open_command.approved_late_minor = reply.approved_minor
        if not open_command.waiting:
            del self._by_key[command.command_key]
            self._ended(open_command)
