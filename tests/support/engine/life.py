"""A card that executes commands one after the other, for tests of ``execute``."""

from __future__ import annotations

from typing import Any

from engine.authorization.executed import CommandContext, Executed
from engine.cards.account import Account
from engine.cards.card import Card
from engine.commands import CardCommand
from engine.execution.execute import execute
from engine.replies import WireAnswer
from tests.support.engine.build import (
    NOW_MS,
    programme,
)


class Life:
    """The state of a card, its account and its programme between commands."""

    def __init__(self, card: Card, account: Account | None, **config: Any) -> None:
        self.context = CommandContext(card, account, programme(**config))

    def do(self, command: CardCommand, now_ms: int = NOW_MS) -> Executed:
        return execute(command, self.context, now_ms)

    @property
    def card(self) -> Card:
        return self.context.card

    @property
    def account(self) -> Account:
        assert self.context.account is not None
        return self.context.account


def approved(executed: Executed) -> bool:
    """Whether the whole amount was approved."""
    return isinstance(executed.reply, WireAnswer) and executed.reply.response_code == "00"
