"""The operations on KYC checks."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Query
from starlette.responses import Response

from api.database.pool import Connection
from api.http.answers import json_response
from api.http.problems import Refusal, not_found
from api.http.refusals import refusals
from api.kyc.advance import Step, add_inputs, data_of, find, today_of, write
from api.kyc.cases import LOCKED, SELECT, STATE_IS, Check, check_of, insert
from api.kyc.inputs import CheckInput, ChecksQuery, Review, Submission, require_possible
from api.kyc.policy import require_accepted
from api.kyc.views import KycCheckView, show
from api.operations.acts import Change, record_act
from api.operations.call import Call, KeyedCall, PathId, ReadCall, UncheckedPathId, require_id
from api.operations.idempotency import once
from api.operations.pagination import page, page_model
from api.operations.route import new_router
from api.people.rows import FIND as FIND_CARDHOLDER
from api.programmes.routes import open_programme
from engine.kyc.case import open_case, review
from engine.kyc.evaluation import document_expiry
from engine.kyc.flows import suffices

router = new_router("KYC")
KIND: Final = "kyc_check"


@router.post(
    "/v1/kyc/checks",
    status_code=201,
    response_model=KycCheckView,
    responses=refusals("not-found", "programme-closed", "cardholder-closed", "kyc-flow-below-policy"),
)
async def create_kyc_check(given: CheckInput, call: KeyedCall) -> Response:
    """Begin a KYC check of a cardholder.

    The flow must be at least the programme's `kyc_policy`. The check awaits the inputs of its flow for 30
    days. The cardholder's `kyc_state` follows their checks: it is `passed` while the newest check that passed
    or failed has passed, and otherwise the state of the newest check; each change emits `cardholder.updated`.
    """
    services, caller = call.services, call.caller

    async def work(connection: Connection) -> Response:
        of_caller = (given.cardholder_id, caller.tenant_id, caller.live)
        holder: Any = await connection.fetchrow(FIND_CARDHOLDER + LOCKED, *of_caller)
        if holder is None:
            raise not_found()
        programme = await open_programme(connection, caller, holder["programme_id"])
        if holder["status"] == "closed":
            raise Refusal("cardholder-closed")
        if not suffices(given.flow_key, programme.kyc_policy):
            raise Refusal("kyc-flow-below-policy")
        case = open_case(services.new_id(), given.flow_key, services.clock.now_ms())
        check = Check(case, caller.tenant_id, caller.live, given.cardholder_id)
        await insert(connection, check)
        await record_act(connection, call, Change(KIND, check.id, None, show(check)))
        return json_response(201, show(check))

    return await once(services, call.claim, work)


@router.get("/v1/kyc/checks", response_model=page_model("KycChecks", KycCheckView))
async def list_kyc_checks(query: Annotated[ChecksQuery, Query()], call: ReadCall) -> Response:
    """List KYC checks, newest first."""
    now_ms = call.services.clock.now_ms()
    return await page(
        call.services,
        call.caller,
        query,
        table="kyc_checks",
        select=SELECT,
        filters={"r.cardholder_id = ?::uuid": query.cardholder_id},
        scanned={STATE_IS: query.state},
        show=lambda row: show(check_of(row, now_ms)),
    )


@router.get("/v1/kyc/checks/{id}", response_model=KycCheckView, responses=refusals("not-found"))
async def get_kyc_check(check_id: PathId, call: ReadCall) -> Response:
    """Get a KYC check."""
    return json_response(200, show(await find(call.services, call.caller, check_id)))


@router.post(
    "/v1/kyc/checks/{id}/submissions",
    response_model=KycCheckView,
    responses=refusals("not-found", "kyc-not-collecting", "kyc-check-changed", "document-type-not-accepted"),
)
async def submit_kyc_data(check_id: UncheckedPathId, given: Submission, call: KeyedCall) -> Response:
    """Attach applicant data to a collecting check.

    `awaiting` shrinks with each submission; once it is empty the check is evaluated, and the answer has its
    new state. If the provider does not answer, the check is `in_review` and is evaluated again
    automatically. Data are held in custody and never shown. In test mode the family name decides: `FAIL`
    fails, `REVIEW` goes to review, all others pass.
    """
    services = call.services
    require_possible(given, today_of(services))
    check = await find(services, call.caller, require_id(check_id))
    if given.chosen_type is not None:
        await require_accepted(services, check, given.chosen_type)
    step = await add_inputs(services, check, given.values, given.chosen_type)
    return await _written(call, step)


@router.post(
    "/v1/kyc/checks/{id}/review",
    response_model=KycCheckView,
    responses=refusals("not-found", "kyc-not-in-review", "kyc-check-changed"),
)
async def review_kyc_check(check_id: PathId, given: Review, call: KeyedCall) -> Response:
    """Decide on a check that is in review.

    `passed` and `failed` end it; `more_input` makes it collect the inputs in `awaiting` again.
    """
    services = call.services
    check = await find(services, call.caller, check_id)
    if check.case.state != "in_review":
        raise Refusal("kyc-not-in-review", f"The check is {check.case.state}.")
    last = None
    if given.outcome == "passed":
        reader = f"{call.caller.kind} {call.caller.id}"
        data = await data_of(services, check.case, reader, ["document_verification"])
        last = document_expiry(data, today_of(services))
    now_ms = services.clock.now_ms()
    case = review(check.case, given.outcome, given.reason_codes, given.awaiting, last, now_ms)
    return await _written(call, Step(check, case))


async def _written(call: Call, step: Step) -> Response:
    async def work(connection: Connection) -> Response:
        shown = show(await write(connection, call.services, step))
        # Names of the submitted inputs; their values stay in custody.
        given = {"inputs": sorted(step.values)} if step.values else {}
        await record_act(connection, call, Change(KIND, step.check.id, show(step.before), shown | given))
        return json_response(200, shown)

    return await once(call.services, call.claim, work)
