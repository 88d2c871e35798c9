"""One history lived twice: as it was recorded, and under the change.

The recorded run computes each decision again from the folded state and compares it with the stored bytes. As
long as the change turns no decision of the account, both runs have the same state, which is then kept once;
the second run has a copy of its own from the first decision that differs.

The later messages are those of the recorded history, adapted where a merchant cannot have sent them
(``engine.backtests.messages``). An advice that the network itself approved a sale counts in both runs. Where
only the second run gets as far as the endpoint of a delegated programme, the endpoint is assumed to approve.
"""

from __future__ import annotations

from collections import ChainMap
from typing import Final, NamedTuple

import msgspec

from engine.authorization.authorizing import decision_effects, decision_inputs
from engine.authorization.effects import Effect, HoldLapsed, HoldPlaced
from engine.authorization.executed import CommandContext, apply, lapse_expired_holds
from engine.backtests.entry import Entry
from engine.backtests.messages import adapted, is_unsent
from engine.backtests.plan import ChangedRules, Plan, added_controls, changed_controls
from engine.backtests.tally import Direction, Flip, Tally
from engine.backtests.unaffected import is_approved_alike, is_unaffected
from engine.backtests.velocities import CardPast, Pasts, use_velocities
from engine.cards.account import Account, resize_hold
from engine.cards.card import Card
from engine.commands import Advise, Authorize, CardCommand, Continuation, CreateCard, Present, Reverse
from engine.controls import Control
from engine.decision.decide import Decision, authorize, must_call_endpoint
from engine.decision.delegation import EndpointResult
from engine.decision.inputs import RULES, Inputs
from engine.decision.recorded import decode_inputs
from engine.execution.execute import AppliedFollowUp, apply_follow_up, execute
from engine.programmes.programme import ProgrammeConfig
from engine.replay.earlier import by_earlier_rules
from engine.replay.programmes import ProgrammeVersions
from engine.replay.state import ReplayedState
from engine.rules.evaluate import NO_RULES, RecordedPast, RuleSet, rules_for
from engine.rules.model import Rule
from engine.rules.observed import Observed

replace = msgspec.structs.replace

NEVER_MS: Final = 253_402_300_799_000
"""The end of the year 9999: the expiry of holds that are assumed to be presented."""

_UNKNOWN: Final[tuple[Observed, ...]] = ()
"""Observed values before stored inputs were decoded."""
_FOLLOW_UPS: Final = (Reverse, Present, Advise)
_decode_command: Final = msgspec.json.Decoder(CardCommand).decode
_encode: Final = msgspec.json.Encoder().encode


class MismatchError(Exception):
    """A recorded decision was not reproduced; the argument is the id of its command."""


class LeftOutError(Exception):
    """The history has commands that ran under earlier rules of the engine."""


class _Made(msgspec.Struct, frozen=True, gc=False):
    """A decision of one run, before its effects are applied."""

    context: CommandContext
    lapsed: tuple[HoldLapsed, ...]
    inputs: Inputs
    decision: Decision


class _ChangedControls(NamedTuple):
    """The controls of a card, the changed ones, and those of them that the change adds."""

    recorded: tuple[Control, ...]
    changed: tuple[Control, ...]
    added: tuple[Control, ...]


class History:
    """The history of the cards of one account. Give it every command to ``live``, in order."""

    def __init__(self, plan: Plan, programmes: ProgrammeVersions, *, card_velocities: bool = False) -> None:
        """``card_velocities``: whether rules of single cards may have velocities."""
        self.tally = Tally()
        self.flips: list[Flip] = []
        """New flips; the caller takes them out."""
        self._plan = plan
        self._programmes = programmes
        self._recorded = ReplayedState()
        self._changed: ReplayedState | None = None
        """The state of the second run, once it differs."""
        self._unsent: set[str] = set()
        """Authorizations that the second run declined and the recorded run approved."""
        self._config: ProgrammeConfig | None = None
        """The version of the last decision, probably also that of the next one."""
        self._controls: dict[str, _ChangedControls] = {}
        self._rules: dict[str, tuple[tuple[Rule, ...], tuple[Rule, ...], RuleSet]] = {}
        """For each card the rules of its programme, its own, and those of them in force."""
        self._changed_rules = ChangedRules(plan.change)
        known = (*programmes.rules.values(), *plan.change.add_rules)
        self._pasts = Pasts() if card_velocities or use_velocities(known) else None
        """The purchases of the second run; ``None`` if no rule reads them."""

    @property
    def account_version(self) -> int:
        """The version of the account after the last command."""
        account = self._recorded.account
        return account.version if account is not None else 0

    @property
    def diverged(self) -> bool:
        """Whether the two runs have different states."""
        return self._changed is not None

    def live(self, entry: Entry) -> None:
        """Live the next command in both runs. Raises MismatchError and LeftOutError."""
        command = _decode_command(entry.command)
        if isinstance(command, Authorize):
            self._decide(command, entry)
        elif isinstance(command, _FOLLOW_UPS):
            self._follow(command, entry)
        elif isinstance(command, CreateCard):
            self._issue(command, entry)
        else:
            self._execute(command, entry)

    # --- decisions ----------------------------------------------------------------------------------------

    def _decide(self, command: Authorize, entry: Entry) -> None:
        made = self._recorded_decision(command, entry)
        in_window = entry.at_ms >= self._plan.from_ms
        after: Decision | None = made.decision
        if self._changed is not None:
            after = self._decide_apart(command, entry, made)
        elif in_window:
            second = self._affected(command, entry, made)
            after = after if second is None else second.decision
            if second is not None and not _same_effects(made.decision, second.decision):
                self._changed = self._recorded.copy()
                twin = self._twin(command, entry, second.context)
                self._apply_second(command, entry, replace(second, context=twin), made.decision)
        authorization_id, effects = _apply(self._recorded, command, entry, made)
        if self._changed is None and self._pasts is not None:
            self._pasts.follow(entry.card_id, command, effects, made.context.original, entry.at_ms)
        if in_window:
            self._count(command, entry, authorization_id, made.decision, after)

    def _recorded_decision(self, command: Authorize, entry: Entry) -> _Made:
        """The decision of the recorded run. Stored inputs are decoded only if they differ from those under
        the last programme version, without velocities and without a call to an endpoint."""
        if entry.inputs is None or entry.decision is None:
            raise MismatchError(command.id)
        try:
            config = self._config or self._programme_at(entry)
            card = self._recorded.cards[entry.card_id].card
            rules = self._rules_at(card, entry.at_ms)
            past = RecordedPast(_UNKNOWN) if rules.velocities else None
            context = self._recorded.context(entry.card_id, command, config, None, entry.at_ms, rules, past)
            lapsed = lapse_expired_holds(context, entry.at_ms)
            inputs = decision_inputs(context, entry.at_ms, lapsed, command)
            if _encode(inputs).decode() != entry.inputs:
                context, inputs = self._as_stored(command, entry, context, lapsed)
        except KeyError:
            raise MismatchError(command.id) from None
        self._config = context.programme
        decision = authorize(command, inputs, context.rules)
        if _encode(decision).decode() != entry.decision:
            raise MismatchError(command.id)
        return _Made(context, lapsed, inputs, decision)

    def _as_stored(
        self, command: Authorize, entry: Entry, context: CommandContext, lapsed: tuple[HoldLapsed, ...]
    ) -> tuple[CommandContext, Inputs]:
        """Context and inputs with the versions and the answers that the stored inputs name. Raises KeyError
        for an unknown version."""
        assert entry.inputs is not None, "decisions have inputs"
        if by_earlier_rules(command, entry.inputs, None):
            raise LeftOutError
        stored = decode_inputs(entry.inputs)
        in_force = stored.rules_in_force
        context = replace(
            context,
            programme=self._programmes.numbered(context.programme.id, stored.programme_version),
            endpoint_result=stored.endpoint_result,
            rules=self._recorded.recorded_rules(in_force, self._programmes),
            past=None if in_force is None else RecordedPast(in_force.observed),
        )
        inputs = decision_inputs(context, entry.at_ms, lapsed, command)
        return context, inputs if stored.rules == RULES else replace(inputs, rules=stored.rules)

    def _decide_apart(self, command: Authorize, entry: Entry, made: _Made) -> Decision | None:
        """The decision of the second run, which has a state of its own; ``None`` for an increment that the
        merchant does not send."""
        assert self._changed is not None, "called once the runs differ"
        if is_unsent(made.context.original, self._unsent):
            self._changed.skip(entry.card_id)
            return None
        context = self._twin(command, entry, made.context)
        lapsed = lapse_expired_holds(context, entry.at_ms)
        card, controls = made.context.card, self._controls_of(context.card)
        rules = self._changed_rules_of(context.card, made.context.rules)
        if not (rules.active or rules.shadow) and is_approved_alike(
            command, made.inputs, made.decision, card, context, controls
        ):
            second = _Made(context, lapsed, made.inputs, made.decision)
        else:
            second = self._second_decision(command, entry, context, lapsed, made)
        self._apply_second(command, entry, second, made.decision)
        return second.decision

    def _twin(self, command: CardCommand, entry: Entry, context: CommandContext) -> CommandContext:
        """``context`` of the recorded run in the state of the second one."""
        assert self._changed is not None, "called once the runs differ"
        return self._changed.context(
            entry.card_id,
            command,
            context.programme,
            context.endpoint_result,
            entry.at_ms,
            context.rules,
            context.past,
        )

    def _affected(self, command: Authorize, entry: Entry, made: _Made) -> _Made | None:
        """The decision under the change while both runs have one state; ``None`` if it is unaffected."""
        context = made.context
        controls = self._controls_of(context.card)
        rules = self._changed_rules_of(context.card, context.rules)
        if controls is context.card.controls and rules is context.rules:
            return None
        if self._is_unaffected(command, made, rules):
            return None
        return self._second_decision(command, entry, context, made.lapsed, made)

    def _second_decision(
        self,
        command: Authorize,
        entry: Entry,
        context: CommandContext,
        lapsed: tuple[HoldLapsed, ...],
        made: _Made,
    ) -> _Made:
        """The decision under the change in the state of ``context``."""
        controls = self._controls_of(context.card)
        rules = self._changed_rules_of(context.card, made.context.rules)
        past = self._past_of(context, made) if rules.velocities else None
        context = replace(context, rules=rules, past=past)
        inputs = decision_inputs(context, entry.at_ms, lapsed, command)
        if controls is not inputs.controls:
            inputs = replace(inputs, controls=controls)
        if made.inputs.rules != RULES:
            inputs = replace(inputs, rules=made.inputs.rules)
        if must_call_endpoint(command, inputs, rules):
            inputs = replace(inputs, endpoint_result=EndpointResult("approved"))
        return _Made(context, lapsed, inputs, authorize(command, inputs, rules))

    def _is_unaffected(self, command: Authorize, made: _Made, rules: RuleSet) -> bool:
        """Whether the change certainly leaves a recorded decision as it is. Both runs have one state."""
        card = made.context.card
        added = NO_RULES if rules is made.context.rules else self._changed_rules.added
        past = self._past_of(made.context, made) if added.velocities else None
        controls = self._controls[card.id].added
        return is_unaffected(command, made.inputs, made.decision, controls, added, past, card.created_ms)

    def _past_of(self, context: CommandContext, made: _Made) -> CardPast:
        """The past of the second run. While both runs have one state, it has the recorded values."""
        assert self._pasts is not None, "some rule reads it"
        in_force = made.inputs.rules_in_force
        known = {}
        if self._changed is None and in_force is not None:
            known = dict(zip(made.context.rules.velocities, in_force.observed, strict=True))
        return self._pasts.of(context.card.id, context.account is not None, known)

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

    def _changed_rules_of(self, card: Card, recorded: RuleSet) -> RuleSet:
        """The rules in force for ``card`` under the change."""
        if not self._plan.scope.covers(card):
            return recorded
        return self._changed_rules.of(recorded, ChainMap(self._recorded.rules, self._programmes.rules))

    def _controls_of(self, card: Card) -> tuple[Control, ...]:
        """The controls of ``card`` under the change."""
        known = self._controls.get(card.id)
        if known is None or known.recorded is not card.controls:
            plan = self._plan
            covered = plan.scope.covers(card)
            changed = changed_controls(card.controls, plan.change) if covered else card.controls
            if changed == card.controls:
                changed = card.controls
            added = added_controls(card.controls, changed)
            known = self._controls[card.id] = _ChangedControls(card.controls, changed, added)
        return known.changed

    def _apply_second(self, command: Authorize, entry: Entry, made: _Made, recorded: Decision) -> None:
        """Apply a decision of the second run, whose recorded counterpart is ``recorded``."""
        assert self._changed is not None, "called once the runs differ"
        authorization_id, effects = _apply(self._changed, command, entry, made)
        if self._pasts is not None:
            self._pasts.follow(entry.card_id, command, effects, made.context.original, entry.at_ms)
        if made.decision.reason is not None:
            if recorded.reason is None and authorization_id == command.id:
                self._unsent.add(command.id)
        elif recorded.reason is not None and self._plan.assume_presented:
            _reserve_for_good(made.context.account, effects)

    def _count(
        self,
        command: Authorize,
        entry: Entry,
        authorization_id: str,
        decision: Decision,
        after: Decision | None,
    ) -> None:
        tally = self.tally
        tally.decisions += 1
        tally.before.count(command, decision)
        if after is None:
            tally.after.not_sent += 1
            return
        tally.after.count(command, after)
        if (after.reason is None) == (decision.reason is None):
            return
        declined, approved = (after, decision) if after.reason is not None else (decision, after)
        direction: Direction = "approved_to_declined" if declined is after else "declined_to_approved"
        flip = Flip(
            command.id,
            authorization_id,
            entry.card_id,
            entry.at_ms,
            "authorization" if authorization_id == command.id else "increment",
            direction,
            _deciding_rule(declined),
            approved.approved_minor,
            command.currency,
            command.mcc,
            decision.day,
            _encode(decision).decode(),
            _encode(after).decode(),
        )
        tally.flip(flip)
        self.flips.append(flip)

    # --- other commands -----------------------------------------------------------------------------------

    def _follow(self, command: Reverse | Present | Advise, entry: Entry) -> None:
        if by_earlier_rules(command, None, entry.decision):
            raise LeftOutError
        context = self._recorded_context(command, entry)
        second = None
        if self._changed is not None:
            # Before the recorded run applies the command: it compares the amounts that are still open.
            known = self._changed.cards[entry.card_id].known
            second = adapted(command, context.original, known, self._unsent, self._plan.assume_presented)
        applied = apply_follow_up(command, context, entry.at_ms)
        self._recorded.record(entry.card_id, command.command_key, applied.effects, applied.authorization_id)
        if self._changed is None:
            self._follow_past(entry, applied, context)
        elif second is None:
            self._changed.skip(entry.card_id)
        else:
            context = self._twin(second, entry, context)
            applied = apply_follow_up(second, context, entry.at_ms)
            self._changed.record(
                entry.card_id, command.command_key, applied.effects, applied.authorization_id
            )
            self._follow_past(entry, applied, context)

    def _follow_past(self, entry: Entry, applied: AppliedFollowUp, context: CommandContext) -> None:
        if self._pasts is not None:
            command, effects = applied.command, applied.effects
            self._pasts.follow(entry.card_id, command, effects, context.original, entry.at_ms)

    def _issue(self, command: CreateCard, entry: Entry) -> None:
        executed = self._recorded.issue(command, entry.at_ms)
        self._recorded.record(entry.card_id, command.command_key, executed.effects, None)
        if self._pasts is not None:
            self._pasts.issue(command)
        if self._changed is not None:
            self._changed.issue(_continuing(command, self._changed), entry.at_ms)
            self._changed.skip(entry.card_id)

    def _execute(self, command: CardCommand, entry: Entry) -> None:
        context = self._recorded_context(command, entry)
        executed = execute(command, context, entry.at_ms)
        if not executed.journaled:
            raise MismatchError(command.id)
        self._recorded.record(entry.card_id, command.command_key, executed.effects, executed.authorization_id)
        if self._changed is None:
            return
        if not is_unsent(context.original, self._unsent):
            execute(command, self._twin(command, entry, context), entry.at_ms)
        self._changed.skip(entry.card_id)

    def _recorded_context(self, command: CardCommand, entry: Entry) -> CommandContext:
        try:
            config = self._programme_at(entry)
            return self._recorded.context(entry.card_id, command, config, None, entry.at_ms)
        except KeyError:
            raise MismatchError(command.id) from None

    def _programme_at(self, entry: Entry) -> ProgrammeConfig:
        programme_id = self._recorded.cards[entry.card_id].card.programme_id
        return self._programmes.at(programme_id, entry.at_ms)


def _apply(
    state: ReplayedState, command: Authorize, entry: Entry, made: _Made
) -> tuple[str, tuple[Effect, ...]]:
    """Apply the effects of a decision to the state of its run; returns its authorization and the effects."""
    authorization_id, effects = decision_effects(command, made.decision, made.inputs, made.context)
    apply(made.context, made.lapsed, effects)
    state.record(entry.card_id, command.command_key, effects, authorization_id)
    return authorization_id, effects


def _same_effects(one: Decision, other: Decision) -> bool:
    """Whether two decisions on the same state have the same effects; their traces may differ."""
    return (
        one.reason == other.reason
        and one.approved_minor == other.approved_minor
        and one.hold_expires_ms == other.hold_expires_ms
        and one.stand_in == other.stand_in
    )


def _reserve_for_good(account: Account | None, effects: tuple[Effect, ...]) -> None:
    """Keep a newly placed hold: the purchase is assumed to be presented in full."""
    for effect in effects:
        if type(effect) is HoldPlaced and account is not None and effect.hold.id in account.holds:
            resize_hold(account, effect.hold, effect.hold.amount_minor, NEVER_MS)


def _continuing(command: CreateCard, state: ReplayedState) -> CreateCard:
    """The issue of a replacement that continues the counters of its predecessor in ``state``."""
    continues = command.continues
    if continues is None or continues.card_id not in state.cards:
        return command
    card = state.cards[continues.card_id].card
    declared = card.declared
    continuation = Continuation(
        card_id=card.id,
        day=card.day,
        day_count=card.day_count,
        day_amount_minor=card.day_amount_minor,
        declared_minor=None if declared is None else declared.balance_minor,
        consumed_minor=0 if declared is None else declared.consumed_minor,
        declared_ms=0 if declared is None else declared.declared_ms,
    )
    return replace(command, continues=continuation)


def _deciding_rule(declined: Decision) -> str:
    """The rule that declined: the last step that failed."""
    return next((step.rule for step in reversed(declined.trace) if step.outcome == "fail"), "")
