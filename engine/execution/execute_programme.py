"""Execute one command on one programme: configuration, outages and exposure."""

from __future__ import annotations

from typing import Any

import msgspec

from engine.authorization.events import Event, outage_finished, programme_event
from engine.commands import (
    ChangeProgramme,
    ChangeProgrammeRule,
    CreateProgramme,
    CreateProgrammeRule,
    EndOutage,
    GrantStandIns,
    ProgrammeChange,
    SetStandInPolicy,
)
from engine.execution.changing_rules import change_rules
from engine.ids import Derived, derive
from engine.programmes.programme import TRANSITIONS, Programme, ProgrammeConfig, policy_view, programme_view
from engine.programmes.stand_in import grant, under_policy
from engine.replies import Done, Granted, Problem, Reply
from engine.rules.model import Rule

NOT_FOUND = Problem(404, "not-found", "There is no such programme.")
_UNLISTED = frozenset({"id", "version", "created_at", "updated_at"})


class ProgrammeExecuted(msgspec.Struct, frozen=True):
    """The result of a programme command; ``after`` is the changed programme, or ``None`` if it did not
    change."""

    reply: Reply
    after: Programme | None = None
    events: tuple[Event, ...] = ()
    rule: Rule | None = None
    """The authorization rule that the command created or changed."""


def concerns_hosts(before: Programme | None, after: Programme) -> bool:
    """Whether the change affects decisions of shard hosts: the configuration or the rules changed, or an
    outage started or ended. The used budget concerns the owner alone."""
    if before is None or before.config != after.config or before.rules != after.rules:
        return True
    return (before.outage and before.outage.id) != (after.outage and after.outage.id)


def create(command: CreateProgramme, now_ms: int) -> ProgrammeExecuted:
    """The first version of a programme."""
    config = msgspec.structs.replace(command.config, version=1, created_ms=now_ms, updated_ms=now_ms)
    view = programme_view(config)
    event = programme_event(
        command.id, "programme.created", config, [name for name in view if name not in _UNLISTED], now_ms
    )
    after = Programme(config, 1, None, command.decision_secret_sealed)
    return ProgrammeExecuted(Done(201, view), after, (event,))


def execute_programme(command: ProgrammeChange, programme: Programme, now_ms: int) -> ProgrammeExecuted:
    """Execute ``command`` on an existing programme."""
    if isinstance(command, ChangeProgramme):
        return change(command, programme, now_ms)
    if isinstance(command, SetStandInPolicy):
        return set_policy(command, programme, now_ms)
    if isinstance(command, CreateProgrammeRule | ChangeProgrammeRule):
        return change_programme_rules(command, programme, now_ms)
    if isinstance(command, GrantStandIns):
        return grant_stand_ins(command, programme, now_ms)
    return end_outage(command, programme, now_ms)


def change(command: ChangeProgramme, programme: Programme, now_ms: int) -> ProgrammeExecuted:
    """The next version of a programme, or the same one if no value differs. The API has validated the
    values."""
    config = programme.config
    if (command.tenant_id, command.live) != (config.tenant_id, config.live):
        return ProgrammeExecuted(NOT_FOUND)
    changes: dict[str, Any] = {
        name: value for name, value in command.changes.items() if getattr(config, name) != value
    }
    if not changes:
        return ProgrammeExecuted(Done(200, programme_view(config)))
    refusal = _refusal(config, changes)
    if refusal:
        return ProgrammeExecuted(refusal)
    newer = msgspec.structs.replace(config, **changes, version=config.version + 1, updated_ms=now_ms)
    event = programme_event(command.id, _event_type(changes), newer, sorted(changes), now_ms)
    after = msgspec.structs.replace(programme, config=newer, seq=programme.seq + 1)
    return ProgrammeExecuted(Done(200, programme_view(newer)), after, (event,))


def set_policy(command: SetStandInPolicy, programme: Programme, now_ms: int) -> ProgrammeExecuted:
    """A new stand-in policy. Another budget currency resets the budget of a current outage."""
    config, before = programme.config, programme.config.stand_in
    if (command.tenant_id, command.live) != (config.tenant_id, config.live):
        return ProgrammeExecuted(NOT_FOUND)
    same = msgspec.structs.replace(command.policy, version=before.version, updated_ms=before.updated_ms)
    if same == before:
        return ProgrammeExecuted(Done(200, policy_view(config)))
    if config.status == "closed":
        return ProgrammeExecuted(_CLOSED)
    policy = msgspec.structs.replace(command.policy, version=before.version + 1, updated_ms=now_ms)
    newer = msgspec.structs.replace(config, stand_in=policy, version=config.version + 1, updated_ms=now_ms)
    shown, shown_before = policy_view(newer), policy_view(config)
    changed = sorted(name for name in shown if name not in _UNLISTED and shown[name] != shown_before[name])
    event = programme_event(command.id, "programme.stip_policy.updated", newer, changed, now_ms)
    outage = programme.outage and under_policy(programme.outage, policy)
    after = msgspec.structs.replace(programme, config=newer, seq=programme.seq + 1, outage=outage)
    return ProgrammeExecuted(Done(200, shown), after, (event,))


def change_programme_rules(
    command: CreateProgrammeRule | ChangeProgrammeRule, programme: Programme, now_ms: int
) -> ProgrammeExecuted:
    """Create or change a rule of the programme or of one of its card products."""
    config = programme.config
    if (command.tenant_id, command.live) != (config.tenant_id, config.live):
        return ProgrammeExecuted(NOT_FOUND)
    changed = change_rules(command, programme.rules, now_ms)
    if changed.rule is None:
        return ProgrammeExecuted(changed.reply)
    after = msgspec.structs.replace(programme, seq=programme.seq + 1, rules=changed.rules)
    return ProgrammeExecuted(changed.reply, after, changed.events, changed.rule)


def grant_stand_ins(command: GrantStandIns, programme: Programme, now_ms: int) -> ProgrammeExecuted:
    """Reserve exposure, or refuse. A reservation is durable before it is granted, and is never released. A
    refusal that changes nothing is not journaled, so a repeated request may be granted."""
    outage_id = derive(command.id, Derived.OUTAGE)
    outage, grants = grant(programme.config.stand_in, programme.outage, command.asks, outage_id, now_ms)
    if outage == programme.outage:
        return ProgrammeExecuted(Granted(grants))
    after = msgspec.structs.replace(programme, seq=programme.seq + 1, outage=outage)
    return ProgrammeExecuted(Granted(grants), after)


def end_outage(command: EndOutage, programme: Programme, now_ms: int) -> ProgrammeExecuted:
    """End the outage by compare-and-set on its id; a second command changes nothing."""
    outage, config = programme.outage, programme.config
    body = {"programme_id": config.id, "outage_id": command.outage_id}
    if outage is None or outage.id != command.outage_id:
        return ProgrammeExecuted(Done(200, body | {"ended": False}))
    after = msgspec.structs.replace(programme, seq=programme.seq + 1, outage=None)
    return ProgrammeExecuted(
        Done(200, body | {"ended": True}), after, (outage_finished(command.id, config.id, now_ms),)
    )


_CLOSED = Problem(409, "invalid-state-transition", "A closed programme cannot be changed.")


def _refusal(config: ProgrammeConfig, changes: dict[str, Any]) -> Problem | None:
    if config.status == "closed":
        return _CLOSED
    status = changes.get("status")
    if status is not None and status not in TRANSITIONS[config.status]:
        return Problem(
            409, "invalid-state-transition", f"A programme that is {config.status} cannot become {status}."
        )
    decisioning = changes.get("decisioning", config.decisioning)
    if decisioning == "delegated" and not changes.get("decision_url", config.decision_url):
        return Problem(400, "decision-url-missing", "A delegated programme needs a decision_url.")
    return None


def _event_type(changes: dict[str, Any]) -> str:
    if changes.get("status") == "suspended":
        return "programme.suspended"
    if changes.get("status") == "closed":
        return "programme.closed"
    return "programme.updated"
