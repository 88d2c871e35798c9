"""Advance a case from its inputs to its verdict.

The new state is computed before it is written: a provider may be slow, and no database connection is held
while it runs. The write is a compare-and-set on the version that was read at the beginning, so it never
overwrites a concurrent change: the caller gets ``kyc-check-changed`` and repeats the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

import msgspec
import structlog

from api.access.tokens import Caller
from api.database.pool import Connection, connected, fetch_row
from api.http.problems import Refusal, not_found
from api.kyc import applicant_data
from api.kyc.cases import FIND, Check, check_of, save
from api.people.personal_data import People
from api.people.rows import FIND as FIND_CARDHOLDER
from api.services import Services
from engine.instant import to_datetime
from engine.kyc.case import Case, conclude, postpone, receive
from engine.kyc.evaluation import document_expiry
from engine.kyc.facts import REASONS, CaseFacts, Holder, Verdict
from engine.kyc.flows import EVIDENCE, INPUTS, PURPOSE_OF, PURPOSES, Purpose
from engine.kyc.triggers import decide_by_name
from engine.limits import KYC_EVALUATION_SECONDS

EVALUATION: Final = "evaluation"
"""Reader name of automatic evaluations in the audit of accesses."""

_log = structlog.get_logger("api.kyc")


@dataclass(frozen=True)
class Step:
    """A computed change of a check, not written yet."""

    before: Check
    after: Case
    values: Mapping[str, bytes] = field(default_factory=dict)
    """New values by field, for custody."""

    @property
    def check(self) -> Check:
        """The check after the change."""
        return msgspec.structs.replace(self.before, case=self.after)


async def find(services: Services, caller: Caller, check_id: str) -> Check:
    """The caller's check in its current state. Raises ``Refusal`` 404."""
    row = await fetch_row(services.pool, FIND, check_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return check_of(row, services.clock.now_ms())


async def add_inputs(
    services: Services,
    check: Check,
    values: Mapping[str, bytes],
    document_type: str | None,
) -> Step:
    """Add inputs to ``check`` and evaluate it once it awaits no more. Raises ``Refusal`` 409."""
    if not check.case.collecting:
        raise Refusal("kyc-not-collecting", f"The check is {check.case.state}.")
    tokens = {name: applicant_data.new_token() for name in values}
    case = receive(check.case, tokens, document_type, services.clock.now_ms())
    if not case.awaiting:
        case = await evaluated(services, check, case, values)
    return Step(check, case, values)


async def evaluated(services: Services, check: Check, case: Case, fresh: Mapping[str, bytes]) -> Case:
    """Evaluate ``case``, which has all its inputs. If the provider fails or times out, the case stays in
    review, and the sweeper (``api.sweepers.kyc``) evaluates it again.
    """
    given = await data_of(services, case, EVALUATION, fresh=fresh)
    facts = await _facts(services, check, case, given)
    try:
        async with asyncio.timeout(KYC_EVALUATION_SECONDS):
            verdict = await services.identity.evaluate(facts) if check.live else decide_by_name(facts)
        _require_sound(verdict)
    except Exception as fault:  # noqa: BLE001 -- a provider fault must not lose the case
        _log.error(
            "identity provider gave no verdict",
            check=check.id,
            fault=type(fault).__name__,
        )
        return postpone(case, services.clock.now_ms())
    return conclude(case, verdict, document_expiry(given, facts.today), services.clock.now_ms())


async def data_of(
    services: Services,
    case: Case,
    reader: str,
    purposes: Collection[Purpose] = PURPOSES,
    fresh: Mapping[str, bytes] | None = None,
) -> dict[str, str]:
    """The data of ``case`` for ``purposes``, without its pictures: values in custody, each read and audited
    for its own purpose, and the ``fresh`` values, which are not in custody yet.
    """
    fresh = {} if fresh is None else fresh
    stored = [name for name in case.tokens if name not in fresh and name not in EVIDENCE]
    data: dict[str, bytes] = {}
    async with connected(services.pool) as connection:
        for purpose in purposes:
            fields = [name for name in stored if PURPOSE_OF[name] == purpose]
            if fields:
                now_ms = services.clock.now_ms()
                data |= await applicant_data.read(
                    connection,
                    services.vault,
                    case.id,
                    fields,
                    purpose=purpose,
                    reader=reader,
                    now_ms=now_ms,
                )
    shown = data | {name: value for name, value in fresh.items() if name not in EVIDENCE}
    return {name: value.decode() for name, value in shown.items()}


async def write(connection: Connection, services: Services, step: Step) -> Check:
    """Write ``step``: the case, its cardholder's state, and the values. Raises ``Refusal``
    ``kyc-check-changed``.
    """
    check, before, now_ms = step.check, step.before.case, services.clock.now_ms()
    await save(connection, check, before.version, now_ms)
    gone = set(before.tokens) - set(check.case.tokens)
    if gone:
        await applicant_data.forget(connection, check.id, gone)
    # The evaluation may drop values of this step, because it requests them again.
    kept = {name: value for name, value in step.values.items() if name in check.case.tokens}
    await applicant_data.keep(connection, services.vault, check.id, kept, check.case.tokens, now_ms)
    return check


def today_of(services: Services) -> date:
    """Today in UTC."""
    return to_datetime(services.clock.now_ms()).date()


async def _facts(services: Services, check: Check, case: Case, given: dict[str, str]) -> CaseFacts:
    row: Any = await fetch_row(
        services.pool, FIND_CARDHOLDER, check.cardholder_id, check.tenant_id, check.live
    )
    person = People(services.vault).of(row)
    address, born = person["address"] or {}, person["date_of_birth"]
    holder = Holder(
        person["given_name"] or "",
        person["family_name"] or "",
        date.fromisoformat(born) if born else None,
        address.get("postcode"),
        address.get("country"),
    )
    return CaseFacts(
        check_id=check.id,
        live=check.live,
        today=today_of(services),
        attempts=case.attempts,
        document_type=case.document_type,
        given=given,
        evidence=frozenset(name for name in EVIDENCE if name in case.tokens),
        holder=holder,
    )


def _require_sound(verdict: Verdict) -> None:
    """Validate the answer of a third-party provider. Raises ``ValueError`` for unknown codes or inputs."""
    known = set(verdict.reason_codes) <= {*REASONS} and set(verdict.awaiting) <= {*INPUTS}
    if not known or (verdict.outcome == "more_input") != bool(verdict.awaiting):
        raise ValueError("not a verdict")
