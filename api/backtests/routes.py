"""Operations on back-tests. API servers lead them in the background (``leading``)."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from fastapi import Query
from starlette.responses import Response

from api.backtests.inputs import BacktestInput, ChangeInput, FlipsQuery, ScopeInput
from api.backtests.views import COUNTED, FLIPS, SELECT, BacktestView, FlipView, show, show_flip
from api.database.pool import Connection, fetch_row
from api.http.answers import json_response
from api.http.problems import FieldError, Refusal, not_found
from api.http.refusals import refusals
from api.operations.acts import Change, record_act
from api.operations.call import NO_MEMBERS, Call, Empty, KeyedCall, OptionallyKeyedCall, PathId, ReadCall
from api.operations.idempotency import once
from api.operations.pagination import PageQuery, page, page_model
from api.operations.route import new_router
from engine.backtests.plan import ScopeType
from engine.instant import to_datetime
from engine.limits import BACKTESTS_OPEN_MAX
from engine.rules.model import Rule

router = new_router("Back-tests")

KIND: Final = "backtest"
FIND: Final = SELECT + " WHERE r.id = $1::uuid AND r.tenant_id = $2 AND r.live = $3"
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('backtests ' || $1, 0))"
_OPEN: Final = """
    SELECT count(*) FROM backtests WHERE tenant_id = $1 AND state IN ('queued', 'running')
"""
_INSERT: Final = """
    INSERT INTO backtests (id, tenant_id, live, scope_type, scope_id, programme_id, currency, from_at, to_at,
        shown_change, plan, state, created_at)
    VALUES ($1::uuid, $2, $3, $4, $5::uuid, $6::uuid, $7, $8, $9, $10, $11, 'queued', $12)
"""
_CANCEL: Final = """
    UPDATE backtests SET state = 'cancelled', completed_at = $2, lease_until = NULL WHERE id = $1::uuid
"""
# The currency of a programme's configuration, and the programme of each scope.
_SCOPES: Final[dict[ScopeType, str]] = {
    "programme": "SELECT id FROM programmes WHERE id = $1::uuid AND tenant_id = $2 AND live = $3",
    "card_product": """SELECT programme_id FROM card_products
        WHERE id = $1::uuid AND tenant_id = $2 AND live = $3""",
    "card": "SELECT programme_id FROM cards WHERE id = $1::uuid AND tenant_id = $2 AND live = $3",
}
_PROGRAMME: Final = """
    SELECT p.id::text, p.config::json ->> 'currency' AS currency FROM programmes p WHERE p.id = ({})
"""

_RULES: Final = """
    SELECT v.rule_id || '@' || v.version AS name, v.rule
    FROM authorization_rules r JOIN authorization_rule_versions v ON v.rule_id = r.id
    WHERE r.id = ANY ($1::uuid[]) AND r.programme_id = $2::uuid AND r.tenant_id = $3 AND r.live = $4
"""

_encode = msgspec.json.Encoder().encode
_decode_rule = msgspec.json.Decoder(Rule).decode


@router.post(
    "/v1/backtests",
    status_code=202,
    response_model=BacktestView,
    responses=refusals("not-found", "too-many-backtests"),
)
async def create_backtest(given: BacktestInput, call: KeyedCall) -> Response:
    """Examine a change of controls and authorization rules on recorded decisions.

    The history of each card is lived again in order, with the counters, balances and holds that it has under
    the change: a decline leaves money and caps for later purchases, an approval uses them. Beside it the
    unchanged controls must reproduce every recorded decision byte for byte. It runs in the background; get it
    until its state is `done`. It changes no card. At most four
    of a tenant can be open at once.
    """

    async def work(connection: Connection) -> Response:
        services, caller = call.services, call.caller
        await connection.execute(_LOCK, caller.tenant_id)
        programme = await _programme_of(connection, call, given.scope)
        if await connection.fetchval(_OPEN, caller.tenant_id) >= BACKTESTS_OPEN_MAX:
            raise Refusal("too-many-backtests")
        rules = await _rules_of(connection, call, programme["id"], given.change)
        backtest_id, now = services.new_id(), to_datetime(services.clock.now_ms())
        await connection.execute(
            _INSERT,
            backtest_id,
            caller.tenant_id,
            caller.live,
            given.scope.type,
            given.scope.id,
            programme["id"],
            programme["currency"],
            *given.window,
            _encode(given.shown_change()).decode(),
            _encode(given.plan(rules)).decode(),
            now,
        )
        shown = show(await _require(connection, call, backtest_id))
        asked = {name: shown[name] for name in ("scope", "from", "to", "change", "assume_presented")}
        await record_act(connection, call, Change(KIND, backtest_id, None, asked))
        return json_response(202, shown)

    return await once(call.services, call.claim, work)


@router.get(
    "/v1/backtests",
    response_model=page_model("Backtests", BacktestView),
    responses=refusals("invalid-cursor"),
)
async def list_backtests(query: Annotated[PageQuery, Query()], call: ReadCall) -> Response:
    """List back-tests, newest first."""
    return await page(
        call.services, call.caller, query, table="backtests", select=SELECT, filters={}, show=show
    )


@router.get("/v1/backtests/{id}", response_model=BacktestView, responses=refusals("not-found"))
async def get_backtest(backtest_id: PathId, call: ReadCall) -> Response:
    """Get a back-test, with its progress or its result."""
    return json_response(200, show(await find_backtest(call, backtest_id)))


@router.delete(
    "/v1/backtests/{id}",
    response_model=BacktestView,
    responses=refusals("not-found", "invalid-state-transition"),
)
async def cancel_backtest(
    backtest_id: PathId, call: OptionallyKeyedCall, _body: Empty = NO_MEMBERS
) -> Response:
    """Cancel a back-test.

    One that is `done` or has `failed` cannot be cancelled; one that is `cancelled` stays as it is.
    """

    async def work(connection: Connection) -> Response:
        row = await _require(connection, call, backtest_id, " FOR UPDATE OF r")
        if row["state"] in ("done", "failed"):
            detail = f"A back-test that is {row['state']} cannot be cancelled."
            raise Refusal("invalid-state-transition", detail)
        if row["state"] != "cancelled":
            now = to_datetime(call.services.clock.now_ms())
            await connection.execute(_CANCEL, backtest_id, now)
            before, after = {"state": row["state"]}, {"state": "cancelled"}
            await record_act(connection, call, Change(KIND, backtest_id, before, after))
            row = await _require(connection, call, backtest_id)
        return json_response(200, show(row))

    return await once(call.services, call.claim, work)


@router.get(
    "/v1/backtests/{id}/flips",
    response_model=page_model("BacktestFlips", FlipView),
    responses=refusals("not-found", "invalid-cursor"),
)
async def list_backtest_flips(
    backtest_id: PathId, query: Annotated[FlipsQuery, Query()], call: ReadCall
) -> Response:
    """List the decisions that the change turns, newest first.

    Each has the recorded decision and the one under the change, with their traces. The first 100,000 of a
    back-test are stored; its figures count all.
    """
    await find_backtest(call, backtest_id)
    return await page(
        call.services,
        call.caller,
        query,
        table="backtest_flips",
        select=FLIPS,
        filters={"r.backtest_id = ?::uuid": backtest_id, "r.direction = ?": query.direction},
        always=COUNTED,
        show=show_flip,
    )


async def find_backtest(call: Call, backtest_id: str) -> Any:
    """The row of the caller's back-test. Raises ``Refusal`` 404."""
    caller = call.caller
    row = await fetch_row(call.services.pool, FIND, backtest_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return row


async def _require(connection: Connection, call: Call, backtest_id: str, lock: str = "") -> Any:
    """As ``find_backtest``, in a transaction."""
    caller = call.caller
    row = await connection.fetchrow(FIND + lock, backtest_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return row


async def _programme_of(connection: Connection, call: Call, scope: ScopeInput) -> Any:
    """Id and currency of the programme of ``scope``. Raises ``Refusal`` 404 unless it is the caller's."""
    caller = call.caller
    statement = _PROGRAMME.format(_SCOPES[scope.type])
    row = await connection.fetchrow(statement, scope.id, caller.tenant_id, caller.live)
    if row is None:
        detail = f"There is no such {scope.type.replace('_', ' ')}."
        raise Refusal("not-found", detail, errors=[FieldError("/scope/id", "not_found", detail)])
    return row


async def _rules_of(
    connection: Connection, call: Call, programme_id: str, change: ChangeInput
) -> dict[str, Rule]:
    """The versions among ``add_rules`` by their names. Raises ``Refusal`` 404 for a rule that the programme
    does not have."""
    caller, added = call.caller, change.added_versions
    ids = [*(each.partition("@")[0] for each in added.values()), *change.remove_rules]
    rows = await connection.fetch(_RULES, ids, programme_id, caller.tenant_id, caller.live) if ids else []
    known = {row["name"]: row["rule"] for row in rows}
    known_ids = {name.partition("@")[0] for name in known}
    detail = "The programme has no such rule."
    errors = [
        FieldError(f"/change/add_rules/{index}", "not_found", detail)
        for index, name in added.items()
        if name not in known
    ] + [
        FieldError(f"/change/remove_rules/{index}", "not_found", detail)
        for index, id_ in enumerate(change.remove_rules)
        if id_ not in known_ids
    ]
    if errors:
        raise Refusal("not-found", detail, errors=errors)
    return {name: _decode_rule(known[name]) for name in added.values()}
