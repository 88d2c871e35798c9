"""The engine's CPU for a back-test of one card, while its history grows: the recorded run, and a second run
under a change that turns a few of its decisions.

Each step lives a whole history. The engine runs alone, without servers; ``loadtests.backtests`` measures a
whole back-test.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from engine.backtests.entry import Entry
from engine.backtests.history import History
from engine.backtests.plan import Change, ControlsChange, Plan, Scope
from engine.commands import CreateCard, CreateProgramme
from engine.controls import PerTxnCap
from engine.decision.compact_layout import Configuration, StoredRow
from engine.decision.compact_reading import expanded
from engine.ids import Derived, derive, key_of
from engine.instant import to_ms
from engine.programmes.programme import ProgrammeConfig
from engine.replay.programmes import ProgrammeVersions
from loadtests.generators.journals import AMOUNT_MINOR_MAX, Card
from loadtests.generators.pure import CURRENCY, NOW_MS, new_id
from loadtests.reports.grown import Point, Series

CAP_MINOR: Final = AMOUNT_MINOR_MAX - 200
"""The added cap: it turns one purchase of fifty."""
FAR_MS: Final = 2 * NOW_MS


class RelivedCard:
    """The journal of one card with ``decisions`` purchases."""

    def __init__(self, decisions: int) -> None:
        tenant, programme_id = new_id(), new_id()
        config = ProgrammeConfig(
            id=programme_id, tenant_id=tenant, live=False, name="Relived", currency=CURRENCY
        )
        self._versions = ProgrammeVersions()
        create = CreateProgramme(
            id=programme_id, command_key=key_of(programme_id), config=config, decision_secret_sealed=b""
        )
        self._versions.add(programme_id, create, NOW_MS)
        life = Card(_issue(tenant, programme_id), self._versions, NOW_MS, decisions)
        self._entries = [_entry(row, life.configurations) for row in life.rows(decisions)]
        change = Change(ControlsChange(add=(PerTxnCap(CAP_MINOR),)))
        self._plan = Plan(Scope("programme", programme_id), NOW_MS, FAR_MS, change)
        self.decisions = decisions
        self.lived = 0
        self.seconds = 0.0
        self.flips = 0

    def run(self, seconds: float) -> None:
        """Live the history for so many seconds of CPU, at least once."""
        end = time.process_time() + seconds
        while True:
            began = time.process_time()
            history = History(self._plan, self._versions)
            for entry in self._entries:
                history.live(entry)
            now = time.process_time()
            self.seconds += now - began
            self.lived += history.tally.decisions
            self.flips = len(history.flips)
            if now >= end:
                return

    def point(self) -> Point:
        """CPU for each decision."""
        cost = self.seconds / self.lived
        return Point(self.decisions, 1e6 * cost, 1 / cost)


def relived_series(counts: tuple[int, ...], seconds: float) -> Series:
    """A point for each length of the history."""
    cards = [RelivedCard(count) for count in counts]
    for card in cards:
        card.run(seconds)
    what_grows = "purchases of one card that a back-test lives again, engine alone"
    return Series("backtests", what_grows, [card.point() for card in cards])


def _issue(tenant: str, programme_id: str) -> CreateCard:
    card_id = new_id()
    return CreateCard(
        id=card_id,
        command_key=key_of(card_id),
        tenant_id=tenant,
        live=False,
        programme_id=programme_id,
        card_product_id=new_id(),
        cardholder_id=new_id(),
        account_id=derive(card_id, Derived.ACCOUNT),
        opens_account=True,
        network="visa",
        currency=CURRENCY,
        iin="45600000",
        last4="0000",
        pan_ref="pan",
        exp_month=12,
        exp_year=2099,
        cvk_generation="1",
        state="active",
    )


def _entry(row: tuple[Any, ...], configurations: Mapping[str, Configuration]) -> Entry:
    card_id, seq, _epoch, key, fingerprint, kind, *texts, at, authorization_id = row
    command, inputs, decision, reply = texts
    stored = StoredRow(
        *(card_id, seq, key, fingerprint, command, inputs, decision, reply, to_ms(at), authorization_id)
    )
    full = expanded(stored, configurations.__getitem__)
    return Entry(card_id, seq, to_ms(at), kind, full.command, full.inputs, full.decision)
