"""One command against one programme: the counterpart of ``execute`` for configuration."""

from __future__ import annotations

from typing import Any

import msgspec

from engine.commands import ChangeProgramme, CreateProgramme
from engine.events import Event, programme_event
from engine.programme import TRANSITIONS, ProgrammeConfig, programme_view
from engine.replies import Done, Problem, Reply

NOT_FOUND = Problem(404, "not-found", "There is no such programme.")


class Governed(msgspec.Struct, frozen=True):
    """The result of a programme command; ``config`` is the new version, or ``None`` when nothing changed."""

    reply: Reply
    config: ProgrammeConfig | None = None
    events: tuple[Event, ...] = ()


def create(command: CreateProgramme, now_ms: int) -> Governed:
    """The first version of a programme."""
    config = msgspec.structs.replace(command.config, version=1, created_ms=now_ms, updated_ms=now_ms)
    changed = [
        name for name in programme_view(config) if name not in {"id", "version", "created_at", "updated_at"}
    ]
    event = programme_event(command.id, "programme.created", config, changed, now_ms)
    return Governed(Done(201, programme_view(config)), config, (event,))


def change(command: ChangeProgramme, config: ProgrammeConfig, now_ms: int) -> Governed:
    """The next version of a programme, or the same one when nothing differs; values were checked by the
    API."""
    if (command.tenant_id, command.live) != (config.tenant_id, config.live):
        return Governed(NOT_FOUND)
    changes: dict[str, Any] = {
        name: value for name, value in command.changes.items() if getattr(config, name) != value
    }
    if not changes:
        return Governed(Done(200, programme_view(config)))
    refusal = _refusal(config, changes)
    if refusal:
        return Governed(refusal)
    newer = msgspec.structs.replace(config, **changes, version=config.version + 1, updated_ms=now_ms)
    event = programme_event(command.id, _event_type(changes), newer, sorted(changes), now_ms)
    return Governed(Done(200, programme_view(newer)), newer, (event,))


def _refusal(config: ProgrammeConfig, changes: dict[str, Any]) -> Problem | None:
    if config.status == "closed":
        return Problem(409, "invalid-state-transition", "A closed programme cannot be changed.")
    status = changes.get("status")
    if status is not None and status not in TRANSITIONS[config.status]:
        return Problem(
            409, "invalid-state-transition", f"A programme that is {config.status} cannot become {status}."
        )
    decisioning = changes.get("decisioning", config.decisioning)
    if decisioning == "delegated" and not changes.get("decision_url", config.decision_url):
        return Problem(409, "decision-url-missing", "A delegated programme needs a decision_url.")
    return None


def _event_type(changes: dict[str, Any]) -> str:
    if changes.get("status") == "suspended":
        return "programme.suspended"
    if changes.get("status") == "closed":
        return "programme.closed"
    return "programme.updated"
