"""One history lived twice: as it was recorded, and under the change.

The recorded run computes each decision again from the folded state and compares it with the stored bytes. As
long as the change turns no decision of the account, both runs have the same state, which is then kept once;
the second run has a copy of its own from the first decision that differs.

The later messages are those of the recorded history, adapted where a merchant cannot have sent them
(``engine.backtests.messages``). An advice that the network itself approved a sale counts in both runs. Where
only the second run gets as far as the endpoint of a delegated programme, the endpoint is assumed to approve.
"""

from __future__ import annotations

from typing import Final

import msgspec

from engine.authorization.authorizing import decision_effects, decision_inputs
from engine.authorization.effects import Effect, HoldLapsed, HoldPlaced
from engine.authorization.executed import CommandContext, apply, lapse_expired_holds
from engine.backtests.entry import Entry
from engine.backtests.messages import adapted, is_unsent
from engine.backtests.plan import Plan, changed_controls
from engine.backtests.tally import Direction, Flip, Tally
from engine.cards.account import Account, resize_hold
from engine.cards.card import Card
from engine.commands import Advise, Authorize, CardCommand, Continuation, CreateCard, Present, Reverse
from engine.controls import Control
from engine.decision.decide import Decision, authorize, must_call_endpoint
from engine.decision.delegation import EndpointResult
from engine.decision.inputs import RULES, Inputs
from engine.decision.recorded import decode_inputs
from engine.execution.execute import apply_follow_up, execute
from engine.programmes.programme import ProgrammeConfig
from engine.replay.earlier import by_earlier_rules
from engine.replay.programmes import ProgrammeVersions
from engine.replay.state import ReplayedState

replace = msgspec.structs.replace

NEVER_MS: Final = 253_402_300_799_000
"""The end of the year 9999: the expiry of holds that are assumed to be presented."""

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


class History:
    """The history of the cards of one account. Give it every command to ``live``, in order."""

    def __init__(self, plan: Plan, programmes: ProgrammeVersions) -> None:
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
        self._controls: dict[str, tuple[tuple[Control, ...], tuple[Control, ...]]] = {}
        """For each card its controls, and the changed ones."""

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
            after = self._second_decision(command, entry, made)
        elif in_window and (inputs := self._changed_inputs(command, made.context, made.inputs)):
            after = authorize(command, inputs)
            if not _same_effects(made.decision, after):
                self._changed = self._recorded.copy()
                context = self._second_context(command, entry, made.context)
                self._apply_second(command, entry, _Made(context, made.lapsed, inputs, after), made.decision)
        authorization_id = _apply(self._recorded, command, entry, made)[0]
        if in_window:
            self._count(command, entry, authorization_id, made.decision, after)

    def _recorded_decision(self, command: Authorize, entry: Entry) -> _Made:
        """The decision of the recorded run. Stored inputs are decoded only if they differ from those under
        the last programme version and without a call to an endpoint."""
        try:
            config = self._config or self._programme_at(entry)
            context = self._recorded.context(entry.card_id, command, config, None, entry.at_ms)
        except KeyError:
            raise MismatchError(command.id) from None
        lapsed = lapse_expired_holds(context, entry.at_ms)
        inputs = decision_inputs(context, entry.at_ms, lapsed, command)
        if entry.inputs is None or entry.decision is None:
            raise MismatchError(command.id)
        if _encode(inputs).decode() != entry.inputs:
            if by_earlier_rules(command, entry.inputs, None):
                raise LeftOutError
            stored = decode_inputs(entry.inputs)
            try:
                config = self._programmes.numbered(config.id, stored.programme_version)
            except KeyError:
                raise MismatchError(command.id) from None
            context = replace(context, programme=config, endpoint_result=stored.endpoint_result)
            inputs = decision_inputs(context, entry.at_ms, lapsed, command)
            if stored.rules != RULES:
                inputs = replace(inputs, rules=stored.rules)
        self._config = config
        decision = authorize(command, inputs)
        if _encode(decision).decode() != entry.decision:
            raise MismatchError(command.id)
        return _Made(context, lapsed, inputs, decision)

    def _second_decision(self, command: Authorize, entry: Entry, made: _Made) -> Decision | None:
        """The decision of the second run, which has a state of its own; ``None`` for an increment that the
        merchant does not send."""
        assert self._changed is not None, "called once the runs differ"
        original = made.context.original
        if original is not None and original.id in self._unsent:
            self._changed.skip(entry.card_id)
            return None
        context = self._second_context(command, entry, made.context)
        lapsed = lapse_expired_holds(context, entry.at_ms)
        inputs = decision_inputs(context, entry.at_ms, lapsed, command)
        if made.inputs.rules != RULES:
            inputs = replace(inputs, rules=made.inputs.rules)
        inputs = self._changed_inputs(command, context, inputs) or inputs
        decision = authorize(command, inputs)
        self._apply_second(command, entry, _Made(context, lapsed, inputs, decision), made.decision)
        return decision

    def _second_context(self, command: Authorize, entry: Entry, context: CommandContext) -> CommandContext:
        assert self._changed is not None, "called once the runs differ"
        return self._changed.context(
            entry.card_id, command, context.programme, context.endpoint_result, entry.at_ms
        )

    def _changed_inputs(self, command: Authorize, context: CommandContext, inputs: Inputs) -> Inputs | None:
        """``inputs`` under the change; ``None`` if it does not affect them."""
        controls = self._controls_of(context.card)
        if controls is not inputs.controls:
            inputs = replace(inputs, controls=controls)
        elif self._changed is None:
            return None
        if must_call_endpoint(command, inputs):
            inputs = replace(inputs, endpoint_result=EndpointResult("approved"))
        return inputs

    def _controls_of(self, card: Card) -> tuple[Control, ...]:
        """The controls of ``card`` under the change."""
        known = self._controls.get(card.id)
        if known is None or known[0] is not card.controls:
            plan = self._plan
            covered = plan.scope.covers(card)
            changed = changed_controls(card.controls, plan.change) if covered else card.controls
            if changed == card.controls:
                changed = card.controls
            known = self._controls[card.id] = (card.controls, changed)
        return known[1]

    def _apply_second(self, command: Authorize, entry: Entry, made: _Made, recorded: Decision) -> None:
        """Apply a decision of the second run, whose recorded counterpart is ``recorded``."""
        assert self._changed is not None, "called once the runs differ"
        authorization_id, effects = _apply(self._changed, command, entry, made)
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
        self._recorded.record(entry.card_id, entry.command_key, applied.effects, applied.authorization_id)
        if self._changed is None:
            return
        if second is None:
            self._changed.skip(entry.card_id)
            return
        context = self._changed.context(entry.card_id, second, context.programme, None, entry.at_ms)
        applied = apply_follow_up(second, context, entry.at_ms)
        self._changed.record(entry.card_id, entry.command_key, applied.effects, applied.authorization_id)

    def _issue(self, command: CreateCard, entry: Entry) -> None:
        executed = self._recorded.issue(command, entry.at_ms)
        self._recorded.record(entry.card_id, entry.command_key, executed.effects, None)
        if self._changed is not None:
            self._changed.issue(_continuing(command, self._changed), entry.at_ms)
            self._changed.skip(entry.card_id)

    def _execute(self, command: CardCommand, entry: Entry) -> None:
        context = self._recorded_context(command, entry)
        executed = execute(command, context, entry.at_ms)
        if not executed.journaled:
            raise MismatchError(command.id)
        self._recorded.record(entry.card_id, entry.command_key, executed.effects, executed.authorization_id)
        if self._changed is None:
            return
        if not is_unsent(context.original, self._unsent):
            twin = self._changed.context(entry.card_id, command, context.programme, None, entry.at_ms)
            execute(command, twin, entry.at_ms)
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
    state.record(entry.card_id, entry.command_key, effects, authorization_id)
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
