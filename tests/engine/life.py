"""One card's life, from one command to the next, for tests of what executes them."""

from __future__ import annotations

from typing import Any

from engine.authorization.executed import CommandContext, Executed
from engine.cards.account import Account
from engine.cards.card import Card
from engine.commands import CardCommand
from engine.execution.execute import execute
from engine.replies import WireAnswer
from tests.engine.build import (
    NOW_MS,
    programme,
)


class Life:
    """A card, its account and its programme, from one command to the next."""

    def __init__(self, card: Card, account: Account | None, **config: Any) -> None:
        self.met = CommandContext(card, account, programme(**config))

    def do(self, command: CardCommand, now_ms: int = NOW_MS) -> Executed:
        return execute(command, self.met, now_ms)

    @property
    def card(self) -> Card:
        return self.met.card

    @property
    def account(self) -> Account:
        assert self.met.account is not None
        return self.met.account


def approved(executed: Executed) -> bool:
    """Whether the whole amount was."""
    return isinstance(executed.reply, WireAnswer) and executed.reply.response_code == "00"
