"""Operations on authorization rules. The owner of the card or the programme writes them; reads come from
PostgreSQL."""

from __future__ import annotations

from typing import Annotated, Any, Final

import asyncpg
from fastapi import Query
from starlette.responses import Response

from api.authorization_rules.conditions import to_engine
from api.authorization_rules.inputs import RuleChangeInput, RuleInput, RulesQuery, ScopeInput, VersionsQuery
from api.authorization_rules.views import (
    FIND,
    SELECT,
    RuleView,
    VersionsView,
    rule_of,
    show,
    show_version,
)
from api.database.pool import fetch, fetch_row
from api.http.answers import json_response
from api.http.problems import FieldError, Refusal, not_found
from api.http.refusals import refusals
from api.operations.call import NO_MEMBERS, Call, Empty, KeyedCall, OptionallyKeyedCall, PathId, ReadCall
from api.operations.pagination import first_of, page, page_model, page_of
from api.operations.route import new_router
from api.operations.submission import submit
from engine.commands import ChangeCardRule, ChangeProgrammeRule, CreateCardRule, CreateProgrammeRule
from engine.ids import key_of, shard_of
from engine.rules.model import Rule, RuleChange, State

router = new_router("Authorization rules")

_OWNERS: Final = {
    "programme": "SELECT id::text AS owner FROM programmes"
    " WHERE id = $1::uuid AND tenant_id = $2 AND live = $3",
    "card_product": "SELECT programme_id::text AS owner FROM card_products"
    " WHERE id = $1::uuid AND tenant_id = $2 AND live = $3",
    "card": "SELECT id::text AS owner FROM cards WHERE id = $1::uuid AND tenant_id = $2 AND live = $3",
}
"""By type of scope: the programme or card whose owner keeps the rules of the scope."""
_VERSIONS: Final = """
    SELECT v.version, v.rule, v.created_at FROM authorization_rule_versions v
    WHERE v.rule_id = $1::uuid AND ($2::integer IS NULL OR v.version < $2)
    ORDER BY v.version DESC LIMIT $3
"""


@router.post(
    "/v1/authorization-rules",
    status_code=201,
    response_model=RuleView,
    responses=refusals("not-found", "too-many-rules", "invalid-state-transition"),
)
async def create_authorization_rule(given: RuleInput, call: KeyedCall) -> Response:
    """Create an authorization rule.

    A rule that is created `active` applies to every authorization after the answer. Rules are evaluated
    after the controls and before risk and funds: those of the programme, of the card product and of the card,
    each in the order of their creation. The first that matches declines. Emits `authorization_rule.created`.
    """
    caller = call.caller
    owner_id = await _owner_of(call, given.scope)
    rule_id = call.services.new_id(shard_of(owner_id))
    rule = Rule(
        id=rule_id,
        scope=given.scope.type,
        scope_id=given.scope.id,
        name=given.name,
        when=to_engine(given.when),
        action=given.action,
        reason=given.reason,
        state=given.state,
    )
    of_caller: Any = {"tenant_id": caller.tenant_id, "live": caller.live, "rule": rule}
    command = (
        CreateCardRule(id=rule_id, command_key=key_of(rule_id), card_id=owner_id, **of_caller)
        if given.scope.type == "card"
        else CreateProgrammeRule(id=rule_id, command_key=key_of(rule_id), programme_id=owner_id, **of_caller)
    )
    return await submit(call, command)


async def _owner_of(call: Call, scope: ScopeInput) -> str:
    """The programme or card whose owner keeps the rules of the caller's ``scope``. Raises ``Refusal`` 404."""
    caller = call.caller
    row = await fetch_row(call.services.pool, _OWNERS[scope.type], scope.id, caller.tenant_id, caller.live)
    if row is None:
        detail = "There is no such scope."
        raise Refusal("not-found", detail, errors=[FieldError("/scope/id", "not_found", detail)])
    owner: str = row["owner"]
    return owner


@router.get(
    "/v1/authorization-rules",
    response_model=page_model("AuthorizationRules", RuleView),
    responses=refusals("invalid-cursor"),
)
async def list_authorization_rules(query: Annotated[RulesQuery, Query()], call: ReadCall) -> Response:
    """List authorization rules, newest first."""
    filters, scanned = first_of(
        {
            "r.scope_id = ?::uuid": query.scope_id,
            "r.state = ?": query.state,
            "r.scope_type = ?": query.scope_type,
        }
    )
    return await page(
        call.services,
        call.caller,
        query,
        table="authorization_rules",
        select=SELECT,
        filters=filters,
        scanned=scanned,
        show=show,
    )


@router.get("/v1/authorization-rules/{id}", response_model=RuleView, responses=refusals("not-found"))
async def get_authorization_rule(rule_id: PathId, call: ReadCall) -> Response:
    """Get an authorization rule."""
    return json_response(200, show(await rule_row(call, rule_id)))


@router.patch(
    "/v1/authorization-rules/{id}",
    response_model=RuleView,
    responses=refusals("not-found", "invalid-state-transition"),
)
async def update_authorization_rule(
    rule_id: PathId, given: RuleChangeInput, call: OptionallyKeyedCall
) -> Response:
    """Change an authorization rule: a new version, in the same state.

    The new version of an `active` rule applies to every authorization after the answer. Emits
    `authorization_rule.updated`; a change without effect makes no version and emits no event.
    """
    return await _submit(call, await rule_row(call, rule_id), given.change(rule_id))


@router.get(
    "/v1/authorization-rules/{id}/versions", response_model=VersionsView, responses=refusals("not-found")
)
async def list_authorization_rule_versions(
    rule_id: PathId, query: Annotated[VersionsQuery, Query()], call: ReadCall
) -> Response:
    """List the versions of an authorization rule, newest first."""
    await rule_row(call, rule_id)
    rows = await fetch(call.services.pool, _VERSIONS, rule_id, query.starting_after, query.limit + 1)
    return page_of(query, rows, show_version, cursor="version")


@router.post(
    "/v1/authorization-rules/{id}/shadow",
    response_model=RuleView,
    responses=refusals("not-found", "too-many-rules", "invalid-state-transition"),
)
async def shadow_authorization_rule(rule_id: PathId, call: KeyedCall, _body: Empty = NO_MEMBERS) -> Response:
    """Evaluate a rule in shadow: its matches are reported, and it declines nothing.

    From `draft`, or from `active` to demote it. Emits `authorization_rule.updated`.
    """
    return await _to_state(call, rule_id, "shadow")


@router.post(
    "/v1/authorization-rules/{id}/activate",
    response_model=RuleView,
    responses=refusals("not-found", "too-many-rules", "invalid-state-transition"),
)
async def activate_authorization_rule(
    rule_id: PathId, call: KeyedCall, _body: Empty = NO_MEMBERS
) -> Response:
    """Activate a rule: it applies to every authorization after the answer.

    Its velocities count the purchases of before, too. Emits `authorization_rule.updated`.
    """
    return await _to_state(call, rule_id, "active")


@router.post(
    "/v1/authorization-rules/{id}/retire",
    response_model=RuleView,
    responses=refusals("not-found", "invalid-state-transition"),
)
async def retire_authorization_rule(rule_id: PathId, call: KeyedCall, _body: Empty = NO_MEMBERS) -> Response:
    """Retire a rule, for ever: it is not evaluated any more.

    Its versions and reports stay. Emits `authorization_rule.updated`; retiring it again has no effect.
    """
    return await _to_state(call, rule_id, "retired")


async def _to_state(call: Call, rule_id: str, state: State) -> Response:
    return await _submit(call, await rule_row(call, rule_id), RuleChange(rule_id=rule_id, state=state))


async def _submit(call: Call, row: asyncpg.Record, change: RuleChange) -> Response:
    """The response to ``change`` of the rule of ``row``. Raises ``Refusal``."""
    if row["state"] == "retired":
        return _retired(row, change)
    try:
        return await submit(call, _command(call, row, change))
    except Refusal as refusal:
        if refusal.kind.slug != "not-found":
            raise
    # Another request has just retired the rule, or replaced its card, which moves it to the new card.
    row = await rule_row(call, change.rule_id)
    if row["state"] == "retired":
        return _retired(row, change)
    return await submit(call, _command(call, row, change))


def _retired(row: asyncpg.Record, change: RuleChange) -> Response:
    """The response to a change of a retired rule: it can only be retired again, without effect."""
    if change.state != "retired":
        raise Refusal("invalid-state-transition", "A retired rule cannot be changed.")
    return json_response(200, show(row))


def _command(call: Call, row: asyncpg.Record, change: RuleChange) -> ChangeCardRule | ChangeProgrammeRule:
    caller, rule = call.caller, rule_of(row)
    of_caller: Any = {"tenant_id": caller.tenant_id, "live": caller.live, "change": change}
    # The id is on the shard of the owner, as that of the rule is.
    id_ = call.services.new_id(shard_of(rule.id))
    if rule.scope == "card":
        return ChangeCardRule(id=id_, command_key=key_of(id_), card_id=rule.scope_id, **of_caller)
    programme_id = row["programme_id"]
    return ChangeProgrammeRule(id=id_, command_key=key_of(id_), programme_id=programme_id, **of_caller)


async def rule_row(call: Call, rule_id: str) -> asyncpg.Record:
    """The row of the caller's rule. Raises ``Refusal`` 404."""
    caller = call.caller
    row = await fetch_row(call.services.pool, FIND, rule_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return row
