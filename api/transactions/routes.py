"""Operations on transactions: state, history and explained decision of each authorization, refund and force
post.
"""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query
from starlette.responses import Response

from api.database.pool import Connection, fetch_row
from api.http.answers import json_response
from api.http.problems import Refusal, not_found
from api.http.refusals import refusals
from api.http.validation import Input
from api.metadata.inputs import MetadataChange
from api.metadata.store import change
from api.operations.acts import Change, record_act
from api.operations.call import NO_MEMBERS, Empty, KeyedCall, OptionallyKeyedCall, PathId, ReadCall
from api.operations.idempotency import once
from api.operations.pagination import page, page_model
from api.operations.route import new_router
from api.transactions.filters import TransactionsQuery, plan_of
from api.transactions.replay import ReplayView, decided_of, replay, rules_of
from api.transactions.views import SELECT, TransactionView, show

router = new_router("Transactions")

_FIND: Final = SELECT + " WHERE r.id = $1::uuid AND r.tenant_id = $2 AND r.live = $3"
_DECIDED: Final = """
    SELECT j.command, j.inputs, j.decision
    FROM transactions r CROSS JOIN LATERAL (
        SELECT * FROM journal WHERE actor_id = r.card_id AND seq = r.seq
        UNION ALL SELECT * FROM journal WHERE authorization_id = r.id AND kind = 'increment') j
    WHERE r.id = $1::uuid AND r.tenant_id = $2 AND r.live = $3
    ORDER BY j.seq
"""


class TransactionChange(Input):
    """The metadata of a transaction."""

    metadata: MetadataChange | None
    """Merged with the stored pairs. A pair with `null` is removed; `null` without an object removes all."""


@router.get(
    "/v1/transactions",
    response_model=page_model("Transactions", TransactionView),
    responses=refusals("invalid-cursor"),
)
async def list_transactions(query: Annotated[TransactionsQuery, Query()], call: ReadCall) -> Response:
    """List transactions, newest first.

    Every filter combines with every other one. A page looks at a bounded number of transactions.
    """
    plan = await plan_of(call, query)
    return await page(
        call.services,
        call.caller,
        query,
        table="transactions",
        select=SELECT,
        filters=plan.filters,
        scanned=plan.scanned,
        candidates=plan.candidates,
        driving=plan.driving,
        always=plan.always,
        joined=True,
        show=show,
    )


@router.get("/v1/transactions/{id}", response_model=TransactionView, responses=refusals("not-found"))
async def get_transaction(transaction_id: PathId, call: ReadCall) -> Response:
    """Get a transaction, with every rule that its decision evaluated and its history since."""
    caller = call.caller
    row = await fetch_row(call.services.pool, _FIND, transaction_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return json_response(200, show(row))


@router.patch("/v1/transactions/{id}", response_model=TransactionView, responses=refusals("not-found"))
async def update_transaction(
    transaction_id: PathId, given: TransactionChange, call: OptionallyKeyedCall
) -> Response:
    """Change a transaction's metadata.

    The other members of a transaction cannot change. There is no event, and `updated_at` stays.
    """

    async def work(connection: Connection) -> Response:
        caller = call.caller
        row = await connection.fetchrow(_FIND, transaction_id, caller.tenant_id, caller.live)
        if row is None:
            raise not_found()
        changes = {"metadata": given.metadata}
        before, after = await change(connection, caller, "transaction", transaction_id, changes)
        await record_act(connection, call, Change("transaction", transaction_id, before.view(), after.view()))
        return json_response(200, show(row) | {"metadata": after.metadata})

    return await once(call.services, call.claim, work)


@router.post(
    "/v1/transactions/{id}/replay",
    response_model=ReplayView,
    responses=refusals("not-found", "nothing-decided"),
)
async def replay_transaction(transaction_id: PathId, call: KeyedCall, _body: Empty = NO_MEMBERS) -> Response:
    """Replay the decisions on a transaction and its increments from their stored inputs.

    A replay changes no data and emits no event. `identical` says whether all recomputed decisions equal the
    recorded ones byte for byte; they differ only if the record was altered.
    """
    caller = call.caller

    async def work(connection: Connection) -> Response:
        rows = await connection.fetch(_DECIDED, transaction_id, caller.tenant_id, caller.live)
        if not rows:
            raise not_found()
        decided = decided_of(rows)
        if not decided:
            raise Refusal("nothing-decided")
        return json_response(200, replay(decided, await rules_of(connection, decided)))

    return await once(call.services, call.claim, work)
