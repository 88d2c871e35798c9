"""The figures of a back-test. Amounts in minor units of the programme's currency."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from engine.commands import Authorize
from engine.decision.decide import Decision
from engine.limits import BACKTEST_EXAMPLES_MAX

_encode: Final = msgspec.json.Encoder().encode

Direction = Literal["approved_to_declined", "declined_to_approved"]


class Side(msgspec.Struct, omit_defaults=True):
    """The decisions of one of the two runs."""

    decisions: int = 0
    approved: int = 0
    declined: int = 0
    approved_minor: int = 0
    """The approved amounts of purchases and increments."""
    not_sent: int = 0
    """Increments that the merchant does not send, because this run declined their sale."""

    def count(self, command: Authorize, decision: Decision) -> None:
        """Count ``decision`` on ``command``."""
        self.decisions += 1
        if decision.reason is not None:
            self.declined += 1
            return
        self.approved += 1
        if command.kind == "purchase":
            self.approved_minor += decision.approved_minor

    def add(self, other: Side) -> None:
        """Add the figures of ``other``."""
        for name in Side.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Count(msgspec.Struct, omit_defaults=True):
    """A number of decisions and the sum of their amounts."""

    count: int = 0
    amount_minor: int = 0

    def add(self, count: int, amount_minor: int) -> None:
        """Add decisions."""
        self.count += count
        self.amount_minor += amount_minor


class Flips(msgspec.Struct, omit_defaults=True):
    """The decisions that the change turned."""

    approved_to_declined: Count = msgspec.field(default_factory=Count)
    declined_to_approved: Count = msgspec.field(default_factory=Count)

    def to(self, direction: Direction) -> Count:
        """The decisions of one direction."""
        return self.approved_to_declined if direction == "approved_to_declined" else self.declined_to_approved

    def add(self, other: Flips) -> None:
        """Add the decisions of ``other``."""
        for mine, theirs in (
            (self.approved_to_declined, other.approved_to_declined),
            (self.declined_to_approved, other.declined_to_approved),
        ):
            mine.add(theirs.count, theirs.amount_minor)


class Flip(msgspec.Struct, frozen=True, gc=False):
    """One decision that the change turned."""

    id: str
    """The id of its command: that of the authorization, or of the increment."""
    authorization_id: str
    card_id: str
    at_ms: int
    operation: Literal["authorization", "increment"]
    direction: Direction
    rule: str
    """The rule that declines in one of the two runs."""
    amount_minor: int
    """The amount that one of the two runs approves."""
    currency: str
    mcc: str
    day: str
    before: str
    """The recorded decision, JSON."""
    after: str
    """The decision under the change, JSON."""


def flip_of(
    command: Authorize, card_id: str, at_ms: int, authorization_id: str, before: Decision, after: Decision
) -> Flip:
    """The flip from the recorded decision ``before`` on ``command`` to ``after``."""
    declined, approved = (after, before) if after.reason is not None else (before, after)
    return Flip(
        command.id,
        authorization_id,
        card_id,
        at_ms,
        "authorization" if authorization_id == command.id else "increment",
        "approved_to_declined" if declined is after else "declined_to_approved",
        _deciding_rule(declined),
        approved.approved_minor,
        command.currency,
        command.mcc,
        before.day,
        _encode(before).decode(),
        _encode(after).decode(),
    )


def _deciding_rule(declined: Decision) -> str:
    """The rule that declined: the last step that failed."""
    return next((step.rule for step in reversed(declined.trace) if step.outcome == "fail"), "")


class Tally(msgspec.Struct, omit_defaults=True):
    """All figures. ``by_*`` split the flips."""

    decisions: int = 0
    """Recorded decisions that the unchanged rules were given again."""
    mismatches: int = 0
    """Those of them that came out with other bytes."""
    examples: list[str] = msgspec.field(default_factory=list)
    """The first mismatches, by the id of their command."""
    cards_left_out: int = 0
    """Cards that cannot be lived again: they ran under rules of an earlier release, or are too large."""
    before: Side = msgspec.field(default_factory=Side)
    after: Side = msgspec.field(default_factory=Side)
    flips: Flips = msgspec.field(default_factory=Flips)
    by_rule: dict[str, Flips] = msgspec.field(default_factory=dict)
    by_mcc: dict[str, Flips] = msgspec.field(default_factory=dict)
    by_day: dict[str, Flips] = msgspec.field(default_factory=dict)

    def count(self, command: Authorize, before: Decision, after: Decision | None) -> None:
        """Count the decision of both runs on ``command``; ``after`` is ``None`` if the merchant does not send
        it in the second run."""
        self.decisions += 1
        self.before.count(command, before)
        if after is None:
            self.after.not_sent += 1
        else:
            self.after.count(command, after)

    def flip(self, flip: Flip) -> None:
        """Count a flip."""
        self.flips.to(flip.direction).add(1, flip.amount_minor)
        for groups, name in ((self.by_rule, flip.rule), (self.by_mcc, flip.mcc), (self.by_day, flip.day)):
            groups.setdefault(name, Flips()).to(flip.direction).add(1, flip.amount_minor)

    def mismatch(self, command_id: str) -> None:
        """Count a recorded decision that was not reproduced."""
        self.mismatches += 1
        self._example(command_id)

    def add(self, other: Tally) -> None:
        """Add the figures of ``other``."""
        self.decisions += other.decisions
        self.mismatches += other.mismatches
        self.cards_left_out += other.cards_left_out
        for example in other.examples:
            self._example(example)
        self.before.add(other.before)
        self.after.add(other.after)
        self.flips.add(other.flips)
        for mine, theirs in (
            (self.by_rule, other.by_rule),
            (self.by_mcc, other.by_mcc),
            (self.by_day, other.by_day),
        ):
            for name, flips in theirs.items():
                mine.setdefault(name, Flips()).add(flips)

    def _example(self, command_id: str) -> None:
        if len(self.examples) < BACKTEST_EXAMPLES_MAX:
            self.examples.append(command_id)
