"""The recorded run of a back-test: the state folded from the journal, and each decision made again in it."""

from __future__ import annotations

from typing import Final

import msgspec

from engine.authorization.authorizing import decision_inputs
from engine.authorization.effects import Effect, HoldLapsed
from engine.authorization.executed import CommandContext, apply, lapse_expired_holds
from engine.backtests.entry import JournalEntry
from engine.cards.card import Card
from engine.commands import Advise, Authorize, CardCommand, Present, Reverse
from engine.decision.decide import Decision, authorize
from engine.decision.inputs import RULES, Inputs
from engine.decision.recorded import decode_inputs
from engine.execution.execute import AppliedFollowUp, apply_follow_up
from engine.programmes.programme import ProgrammeConfig
from engine.replay.earlier import by_earlier_rules
from engine.replay.programmes import ProgrammeVersions
from engine.replay.state import ReplayedState
from engine.rules.evaluate import NO_RULES, RecordedPast, RuleSet, rules_for
from engine.rules.model import Rule
from engine.rules.observed import Observed

replace = msgspec.structs.replace

_UNKNOWN: Final[tuple[Observed, ...]] = ()
"""Observed values before stored inputs were decoded."""


class MismatchError(Exception):
    """A recorded decision was not reproduced; the argument is the id of its command."""


class LeftOutError(Exception):
    """The history has commands that ran under earlier rules of the engine."""


class Made(msgspec.Struct, frozen=True, gc=False):
    """A decision of one run, before its effects are applied."""

    context: CommandContext
    lapsed: tuple[HoldLapsed, ...]
    inputs: Inputs
    decision: Decision


class RecordedRun:
    """The state of the recorded run, and the decisions of the journal in it."""

    def __init__(self, programmes: ProgrammeVersions) -> None:
        self.state = ReplayedState()
        self._programmes = programmes
        self._config: ProgrammeConfig | None = None
        """The version of the last decision, probably also that of the next one."""
        self._rules: dict[str, tuple[tuple[Rule, ...], tuple[Rule, ...], RuleSet]] = {}
        """For each card the rules of its programme, its own, and those of them in force."""

    def decide(self, command: Authorize, entry: JournalEntry) -> Made:
        """The decision, which is not applied yet. Raises MismatchError and LeftOutError.

        Stored inputs are decoded only if they differ from those under the last programme version, without
        velocities and without a call to an endpoint.
        """
        if not entry.has_texts:
            raise MismatchError(command.id)
        try:
            config = self._config or self._programme_at(entry)
            card = self.state.cards[entry.card_id].card
            rules = self._rules_at(card, entry.at_ms)
            past = RecordedPast(_UNKNOWN) if rules.velocities else None
            context = self.state.context(entry.card_id, command, config, None, entry.at_ms, rules, past)
            lapsed = lapse_expired_holds(context, entry.at_ms)
            inputs = decision_inputs(context, entry.at_ms, lapsed, command)
            if not entry.has_inputs(inputs):
                context, inputs = self._as_stored(command, entry, context, lapsed)
        except KeyError:
            raise MismatchError(command.id) from None
        self._config = context.programme
        decision = authorize(command, inputs, context.rules)
        if not entry.has_decision(decision, inputs.day):
            raise MismatchError(command.id)
        return Made(context, lapsed, inputs, decision)

    def _as_stored(
        self, command: Authorize, entry: JournalEntry, context: CommandContext, lapsed: tuple[HoldLapsed, ...]
    ) -> tuple[CommandContext, Inputs]:
        """Context and inputs with the versions and the answers that the stored inputs name. Raises KeyError
        for an unknown version."""
        stored_inputs = entry.inputs
        assert stored_inputs is not None, "decisions have inputs"
        if by_earlier_rules(command, stored_inputs, None):
            raise LeftOutError
        stored = decode_inputs(stored_inputs)
        in_force = stored.rules_in_force
        context = replace(
            context,
            programme=self._programmes.numbered(context.programme.id, stored.programme_version),
            endpoint_result=stored.endpoint_result,
            rules=self.state.recorded_rules(in_force, self._programmes),
            past=None if in_force is None else RecordedPast(in_force.observed),
        )
        inputs = decision_inputs(context, entry.at_ms, lapsed, command)
        return context, inputs if stored.rules == RULES else replace(inputs, rules=stored.rules)

    def follow(
        self, command: Reverse | Present | Advise, entry: JournalEntry, context: CommandContext
    ) -> AppliedFollowUp:
        """Apply a follow-up, whose context is ``context``."""
        applied = apply_follow_up(command, context, entry.at_ms)
        self.state.record(entry.card_id, command.command_key, applied.effects, applied.authorization_id)
        return applied

    def context(self, command: CardCommand, entry: JournalEntry) -> CommandContext:
        """The context of a command that decides nothing. Raises MismatchError."""
        try:
            config = self._programme_at(entry)
            return self.state.context(entry.card_id, command, config, None, entry.at_ms)
        except KeyError:
            raise MismatchError(command.id) from None

    def _rules_at(self, card: Card, at_ms: int) -> RuleSet:
        """The rules that are probably in force for ``card``; stored inputs name those that are."""
        of_programme = self._programmes.rules_at(card.programme_id, at_ms)
        if not of_programme and not card.rules:
            return NO_RULES
        known = self._rules.get(card.id)
        if known is None or known[0] is not of_programme or known[1] is not card.rules:
            rules = rules_for(card.card_product_id, of_programme, card.rules)
            known = self._rules[card.id] = (of_programme, card.rules, rules)
        return known[2]

    def _programme_at(self, entry: JournalEntry) -> ProgrammeConfig:
        programme_id = self.state.cards[entry.card_id].card.programme_id
        return self._programmes.at(programme_id, entry.at_ms)


def apply_decision(
    state: ReplayedState,
    command: Authorize,
    entry: JournalEntry,
    made: Made,
    authorization_id: str,
    effects: tuple[Effect, ...],
) -> None:
    """Apply the effects of a decision to the state of its run."""
    apply(made.context, made.lapsed, effects)
    state.record(entry.card_id, command.command_key, effects, authorization_id)
