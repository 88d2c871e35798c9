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
from engine.authorization.effects import Effect, HoldLapsed
from engine.authorization.executed import CommandContext, apply, lapse_expired_holds
from engine.backtests.assumed import continuing, reserve_for_good, same_effects
from engine.backtests.card_changes import CardChanges
from engine.backtests.entry import JournalEntry
from engine.backtests.messages import adapted, is_unsent
from engine.backtests.plan import Plan
from engine.backtests.recorded_run import LeftOutError, Made, MismatchError, RecordedRun, apply_decision
from engine.backtests.tally import Flip, Tally, flip_of
from engine.backtests.unaffected import independent, is_approved_alike, is_captured_alike, is_unaffected
from engine.backtests.velocities import CardPast, Pasts, use_velocities
from engine.cards.card import Card
from engine.commands import Advise, Authorize, CardCommand, CreateCard, Present, Reverse
from engine.decision.decide import Decision, authorize, must_call_endpoint
from engine.decision.delegation import EndpointResult
from engine.decision.inputs import RULES
from engine.execution.execute import AppliedFollowUp, apply_follow_up, execute
from engine.replay.earlier import by_earlier_rules
from engine.replay.programmes import ProgrammeVersions
from engine.replay.state import ReplayedState
from engine.rules.evaluate import NO_RULES, RuleSet

replace = msgspec.structs.replace

_FOLLOW_UPS: Final = (Reverse, Present, Advise)


class History:
    """The history of the cards of one account. Give it every command to ``live``, in order."""

    def __init__(self, plan: Plan, programmes: ProgrammeVersions, *, card_velocities: bool = False) -> None:
        """``card_velocities``: whether rules of single cards may have velocities."""
        self.tally = Tally()
        self.flips: list[Flip] = []
        """New flips; the caller takes them out."""
        self._plan = plan
        self._run = RecordedRun(programmes)
        self._recorded = self._run.state
        self._changed: ReplayedState | None = None
        """The state of the second run, once it differs."""
        self._unsent: set[str] = set()
        """Authorizations that the second run declined and the recorded run approved."""
        self._changes = CardChanges(plan, programmes)
        known = (*programmes.rules.values(), *plan.change.add_rules)
        self._pasts = Pasts() if card_velocities or use_velocities(known) else None
        """The purchases of the second run; ``None`` if no rule reads them."""

    @property
    def account_version(self) -> int:
        """The version of the account after the last command."""
        account = self._recorded.account
        return account.version if account is not None else 0

    @property
    def changed_state(self) -> ReplayedState | None:
        """The state of the second run, once it differs."""
        return self._changed

    def live(self, entry: JournalEntry) -> None:
        """Live the next command in both runs. Raises MismatchError and LeftOutError."""
        command = entry.read_command()
        if isinstance(command, Authorize):
            self._decide(command, entry)
        elif isinstance(command, _FOLLOW_UPS):
            self._follow(command, entry)
        elif isinstance(command, CreateCard):
            self._issue(command, entry)
        else:
            self._execute(command, entry)

    def _decide(self, command: Authorize, entry: JournalEntry) -> None:
        made = self._run.decide(command, entry)
        authorization_id, effects = decision_effects(command, made.decision, made.inputs, made.context)
        in_window = entry.at_ms >= self._plan.from_ms
        after: Decision | None = made.decision
        if self._changed is not None:
            after = self._decide_apart(command, entry, made, effects)
        elif in_window:
            second = self._affected(command, entry, made)
            after = after if second is None else second.decision
            if second is not None and not same_effects(made.decision, second.decision):
                self._changed = self._recorded.copy()
                twin = replace(second, context=self._twin(command, entry, second.context))
                self._apply_second(command, entry, twin, made.decision)
        apply_decision(self._recorded, command, entry, made, authorization_id, effects)
        if self._changed is None and self._pasts is not None:
            self._pasts.follow(entry.card_id, command, effects, made.context.original, entry.at_ms)
        if in_window:
            self._count(command, entry, authorization_id, made.decision, after)

    def _decide_apart(
        self, command: Authorize, entry: JournalEntry, made: Made, effects: tuple[Effect, ...]
    ) -> Decision | None:
        """The decision of the second run, which has a state of its own; ``None`` for an increment that the
        merchant does not send. ``effects`` are those of ``made``, and are not applied yet."""
        assert self._changed is not None, "called once the runs differ"
        if is_unsent(made.context.original, self._unsent):
            self._changed.skip(entry.card_id)
            return None
        context = self._twin(command, entry, made.context)
        lapsed = lapse_expired_holds(context, entry.at_ms)
        card, controls = made.context.card, self._changes.controls_of(context.card).changed
        rules = self._rules_of(context.card, made.context.rules)
        if not (rules.active or rules.shadow) and is_approved_alike(
            command, made.inputs, made.decision, card, context, controls
        ):
            second = Made(context, lapsed, made.inputs, made.decision)
            self._apply_second(command, entry, second, made.decision, independent(effects))
            return made.decision
        second = self._second_decision(command, entry, context, lapsed, made)
        self._apply_second(command, entry, second, made.decision)
        return second.decision

    def _twin(self, command: CardCommand, entry: JournalEntry, context: CommandContext) -> CommandContext:
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

    def _affected(self, command: Authorize, entry: JournalEntry, made: Made) -> Made | None:
        """The decision under the change while both runs have one state; ``None`` if it is unaffected."""
        context = made.context
        controls = self._changes.controls_of(context.card).changed
        rules = self._rules_of(context.card, context.rules)
        if controls is context.card.controls and rules is context.rules:
            return None
        if self._is_unaffected(command, made, rules):
            return None
        return self._second_decision(command, entry, context, made.lapsed, made)

    def _second_decision(
        self,
        command: Authorize,
        entry: JournalEntry,
        context: CommandContext,
        lapsed: tuple[HoldLapsed, ...],
        made: Made,
    ) -> Made:
        """The decision under the change in the state of ``context``."""
        controls = self._changes.controls_of(context.card).changed
        rules = self._rules_of(context.card, made.context.rules)
        past = self._past_of(context, made) if rules.velocities else None
        context = replace(context, rules=rules, past=past)
        inputs = decision_inputs(context, entry.at_ms, lapsed, command)
        if controls is not inputs.controls:
            inputs = replace(inputs, controls=controls)
        if made.inputs.rules != RULES:
            inputs = replace(inputs, rules=made.inputs.rules)
        if must_call_endpoint(command, inputs, rules):
            inputs = replace(inputs, endpoint_result=EndpointResult("approved"))
        return Made(context, lapsed, inputs, authorize(command, inputs, rules))

    def _is_unaffected(self, command: Authorize, made: Made, rules: RuleSet) -> bool:
        """Whether the change certainly leaves a recorded decision as it is. Both runs have one state."""
        card = made.context.card
        added = NO_RULES if rules is made.context.rules else self._changes.rules.added
        past = self._past_of(made.context, made) if added.velocities else None
        controls = self._changes.controls_of(card).added
        return is_unaffected(command, made.inputs, made.decision, controls, added, past, card.created_ms)

    def _rules_of(self, card: Card, recorded: RuleSet) -> RuleSet:
        """The rules in force for ``card`` under the change."""
        return self._changes.rules_of(card, recorded, self._recorded.rules)

    def _past_of(self, context: CommandContext, made: Made) -> CardPast:
        """The past of the second run. While both runs have one state, it has the recorded values."""
        assert self._pasts is not None, "some rule reads it"
        in_force = made.inputs.rules_in_force
        known = {}
        if self._changed is None and in_force is not None:
            known = dict(zip(made.context.rules.velocities, in_force.observed, strict=True))
        return self._pasts.of(context.card.id, context.account is not None, known)

    def _apply_second(
        self,
        command: Authorize,
        entry: JournalEntry,
        made: Made,
        recorded: Decision,
        effects: tuple[Effect, ...] | None = None,
    ) -> None:
        """Apply a decision of the second run, whose recorded counterpart is ``recorded``. ``effects``: those
        of a decision that opens an authorization, if they are known."""
        assert self._changed is not None, "called once the runs differ"
        authorization_id = command.id
        if effects is None:
            authorization_id, effects = decision_effects(command, made.decision, made.inputs, made.context)
        apply_decision(self._changed, command, entry, made, authorization_id, effects)
        if self._pasts is not None:
            self._pasts.follow(entry.card_id, command, effects, made.context.original, entry.at_ms)
        if made.decision.reason is not None:
            if recorded.reason is None and authorization_id == command.id:
                self._unsent.add(command.id)
        elif recorded.reason is not None and self._plan.assume_presented:
            reserve_for_good(made.context.account, effects)

    def _count(
        self,
        command: Authorize,
        entry: JournalEntry,
        authorization_id: str,
        decision: Decision,
        after: Decision | None,
    ) -> None:
        self.tally.count(command, decision, after)
        if after is None or (after.reason is None) == (decision.reason is None):
            return
        flip = flip_of(command, entry.card_id, entry.at_ms, authorization_id, decision, after)
        self.tally.flip(flip)
        self.flips.append(flip)

    def _follow(self, command: Reverse | Present | Advise, entry: JournalEntry) -> None:
        if by_earlier_rules(command, None, entry.decision):
            raise LeftOutError
        context = self._run.context(command, entry)
        if self._changed is None:
            applied = self._run.follow(command, entry, context)
            self._follow_past(entry, applied, context)
        else:
            self._follow_apart(command, entry, context, self._changed)

    def _follow_apart(
        self,
        command: Reverse | Present | Advise,
        entry: JournalEntry,
        context: CommandContext,
        changed: ReplayedState,
    ) -> None:
        """Apply a follow-up to both states."""
        # Before the recorded run applies the command: it compares the amounts that are still open.
        known = changed.cards[entry.card_id].known
        second = adapted(command, context.original, known, self._unsent, self._plan.assume_presented)
        if second is None:
            self._run.follow(command, entry, context)
            changed.skip(entry.card_id)
            return
        twin = self._twin(second, entry, context)
        alike = second is command and is_captured_alike(command, context, twin)
        applied = self._run.follow(command, entry, context)
        if alike and applied.authorization_id != command.id:
            lapsed = lapse_expired_holds(twin, entry.at_ms)
            apply(twin, lapsed, applied.result.effects)
            applied = replace(applied, effects=(*lapsed, *applied.result.effects))
        else:
            applied = apply_follow_up(second, twin, entry.at_ms)
        changed.record(entry.card_id, command.command_key, applied.effects, applied.authorization_id)
        self._follow_past(entry, applied, twin)

    def _follow_past(self, entry: JournalEntry, applied: AppliedFollowUp, context: CommandContext) -> None:
        if self._pasts is not None:
            command, effects = applied.command, applied.effects
            self._pasts.follow(entry.card_id, command, effects, context.original, entry.at_ms)

    def _issue(self, command: CreateCard, entry: JournalEntry) -> None:
        executed = self._recorded.issue(command, entry.at_ms)
        self._recorded.record(entry.card_id, command.command_key, executed.effects, None)
        if self._pasts is not None:
            self._pasts.issue(command)
        if self._changed is not None:
            self._changed.issue(continuing(command, self._changed), entry.at_ms)
            self._changed.skip(entry.card_id)

    def _execute(self, command: CardCommand, entry: JournalEntry) -> None:
        context = self._run.context(command, entry)
        executed = execute(command, context, entry.at_ms)
        if not executed.journaled:
            raise MismatchError(command.id)
        self._recorded.record(entry.card_id, command.command_key, executed.effects, executed.authorization_id)
        if self._changed is None:
            return
        if not is_unsent(context.original, self._unsent):
            execute(command, self._twin(command, entry, context), entry.at_ms)
        self._changed.skip(entry.card_id)
