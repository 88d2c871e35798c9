"""One card's life, from one command to the next, for tests of what executes them."""

from __future__ import annotations

from typing import Any

from engine.account import Account
from engine.card import Card
from engine.commands import CardCommand
from engine.execute import execute
from engine.executed import Executed, Surroundings
from engine.replies import Answer
from tests.engine.build import (
    NOW_MS,
    programme,
)


class Life:
    """A card, its account and its programme, from one command to the next."""

    def __init__(self, card: Card, account: Account | None, **config: Any) -> None:
        self.met = Surroundings(card, account, programme(**config))

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
    return isinstance(executed.reply, Answer) and executed.reply.response_code == "00"
