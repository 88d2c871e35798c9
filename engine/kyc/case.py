"""One case of identity verification and its changes. Nothing here is personal: inputs are custody tokens.

Every change returns a new case whose version is one higher. ``states`` lists the legal moves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date
from typing import Final, Literal

import msgspec

from engine.instant import DAY_MS, to_datetime, to_ms
from engine.kyc.facts import Verdict
from engine.kyc.flows import EVIDENCE, Flow, in_order, inputs_to_drop, needs, still_awaited
from engine.kyc.states import COMPLETED, EXPIRING, TRANSITIONS, State
from engine.limits import (
    KYC_PASSED_DAYS,
    KYC_PENDING_DAYS,
    KYC_RETRY_SECONDS_MAX,
    KYC_RETRY_SECONDS_MIN,
    KYC_TRIES_MAX,
)

ReviewOutcome = Literal["passed", "failed", "more_input"]

DOCUMENT_TYPE: Final = "document_type"


class Case(msgspec.Struct, frozen=True):
    """One check. ``tokens`` names each input in custody; ``awaiting`` the inputs still to come."""

    id: str
    flow: Flow
    state: State
    version: int
    created_ms: int
    updated_ms: int
    awaiting: tuple[str, ...]
    reason_codes: tuple[str, ...] = ()
    document_type: str | None = None
    tokens: dict[str, str] = {}
    attempts: int = 0
    """Evaluations with a result."""
    tries: int = 0
    """Consecutive evaluations without a result."""
    evaluate_ms: int | None = None
    """Time of the next evaluation after one without a result."""
    completed_ms: int | None = None
    expires_ms: int | None = None

    @property
    def collecting(self) -> bool:
        """Whether the case accepts inputs."""
        return self.state == "pending"

    @property
    def evidence_attached(self) -> bool:
        """Whether a picture of the document is in custody, which fixes the document's type."""
        return EVIDENCE[0] in self.tokens


def open_case(id_: str, flow: Flow, now_ms: int) -> Case:
    """A new case, which awaits all inputs of its flow."""
    expires_ms = now_ms + KYC_PENDING_DAYS * DAY_MS
    return Case(id_, flow, "pending", 1, now_ms, now_ms, needs(flow), expires_ms=expires_ms)


def lapsed(case: Case, now_ms: int) -> bool:
    """Whether the case has expired, even if its row does not say so yet."""
    return case.state in EXPIRING and case.expires_ms is not None and case.expires_ms <= now_ms


def as_of(case: Case, now_ms: int) -> Case:
    """The case as of ``now_ms``: a case past its expiry is ``expired`` since that instant."""
    if not lapsed(case, now_ms):
        return case
    assert case.expires_ms is not None, "lapsed"
    return _moved(case, "expired", case.expires_ms, expires_ms=case.expires_ms, awaiting=())


def receive(case: Case, tokens: Mapping[str, str], document_type: str | None, now_ms: int) -> Case:
    """The collecting case with more inputs; a later value replaces an earlier one. Raises ``ValueError`` for
    any other case.
    """
    if not case.collecting:
        raise ValueError(f"{case.state} takes no inputs")
    given = {*tokens, *((DOCUMENT_TYPE,) if document_type else ())}
    return _moved(
        case,
        "pending",
        now_ms,
        awaiting=still_awaited(case.awaiting, given),
        document_type=document_type or case.document_type,
        tokens={**case.tokens, **tokens},
        expires_ms=case.expires_ms,
    )


def conclude(case: Case, verdict: Verdict, document_expiry: date | None, now_ms: int) -> Case:
    """The case after an evaluation with the result ``verdict``."""
    counted = msgspec.structs.replace(case, attempts=case.attempts + 1, tries=0)
    if verdict.outcome == "passed":
        return _passed(counted, document_expiry, now_ms)
    if verdict.outcome == "failed":
        return _moved(counted, "failed", now_ms, reason_codes=verdict.reason_codes, awaiting=())
    if verdict.outcome == "more_input":
        return _collecting_again(counted, verdict.awaiting, verdict.reason_codes, now_ms)
    return _reviewing(counted, verdict.reason_codes, None, now_ms)


def postpone(case: Case, now_ms: int) -> Case:
    """The case after an evaluation without a result: it is in review and evaluated again automatically for
    a limited time; after that it waits for a reviewer.
    """
    tries = case.tries + 1
    pause_ms = min(KYC_RETRY_SECONDS_MIN * 2 ** (tries - 1), KYC_RETRY_SECONDS_MAX) * 1000
    again_ms = now_ms + pause_ms if tries < KYC_TRIES_MAX else None
    return _reviewing(msgspec.structs.replace(case, tries=tries), case.reason_codes, again_ms, now_ms)


def review(
    case: Case,
    outcome: ReviewOutcome,
    reason_codes: Collection[str],
    awaiting: Collection[str],
    document_expiry: date | None,
    now_ms: int,
) -> Case:
    """The case in review after a person's decision; a failure without reasons keeps those that led to the
    review. Raises ``ValueError`` for any other case.
    """
    if case.state != "in_review":
        raise ValueError(f"{case.state} waits for no decision")
    if outcome == "passed":
        return _passed(case, document_expiry, now_ms)
    codes = tuple(reason_codes) or case.reason_codes
    if outcome == "failed":
        return _moved(case, "failed", now_ms, reason_codes=codes, awaiting=())
    return _collecting_again(msgspec.structs.replace(case, tries=0), awaiting, codes, now_ms)


def erased(case: Case, now_ms: int) -> Case:
    """The case without its inputs. A case that is not completed ends."""
    ends: dict[State, State] = {"pending": "expired", "in_review": "failed"}
    if case.state not in ends:
        return msgspec.structs.replace(case, tokens={}, version=case.version + 1, updated_ms=now_ms)
    to = ends[case.state]
    expires_ms = now_ms if to == "expired" else None
    return _moved(case, to, now_ms, tokens={}, awaiting=(), expires_ms=expires_ms)


def _passed(case: Case, document_expiry: date | None, now_ms: int) -> Case:
    """Valid for ``KYC_PASSED_DAYS``, but not beyond the last day of a document that is still valid."""
    ends_ms = now_ms + KYC_PASSED_DAYS * DAY_MS
    if document_expiry is not None:
        midnight = to_datetime(0).replace(
            year=document_expiry.year, month=document_expiry.month, day=document_expiry.day
        )
        last_ms = to_ms(midnight) + DAY_MS
        # Only test mode or a reviewer passes an expired document.
        ends_ms = min(ends_ms, last_ms) if last_ms > now_ms else ends_ms
    return _moved(case, "passed", now_ms, reason_codes=(), awaiting=(), expires_ms=ends_ms)


def _collecting_again(case: Case, names: Collection[str], codes: tuple[str, ...], now_ms: int) -> Case:
    """The case collects again. Inputs that are requested again lose their old values."""
    forgotten = inputs_to_drop(names)
    return _moved(
        case,
        "pending",
        now_ms,
        awaiting=in_order(names),
        reason_codes=codes,
        document_type=None if DOCUMENT_TYPE in forgotten else case.document_type,
        tokens={name: token for name, token in case.tokens.items() if name not in forgotten},
        expires_ms=now_ms + KYC_PENDING_DAYS * DAY_MS,
    )


def _reviewing(case: Case, codes: tuple[str, ...], again_ms: int | None, now_ms: int) -> Case:
    if case.state == "in_review":
        # Evaluated again, still undecided: the state stays.
        return msgspec.structs.replace(
            case, reason_codes=codes, evaluate_ms=again_ms, version=case.version + 1, updated_ms=now_ms
        )
    return _moved(case, "in_review", now_ms, reason_codes=codes, awaiting=(), evaluate_ms=again_ms)


def _moved(
    case: Case,
    to: State,
    now_ms: int,
    *,
    awaiting: tuple[str, ...],
    reason_codes: tuple[str, ...] | None = None,
    document_type: str | None = None,
    tokens: dict[str, str] | None = None,
    evaluate_ms: int | None = None,
    expires_ms: int | None = None,
) -> Case:
    """The case in another state. Raises ``ValueError`` for a move that the table does not have."""
    if to not in TRANSITIONS[case.state]:
        raise ValueError(f"{case.state} does not become {to}")
    return msgspec.structs.replace(
        case,
        state=to,
        version=case.version + 1,
        updated_ms=now_ms,
        awaiting=awaiting,
        reason_codes=case.reason_codes if reason_codes is None else reason_codes,
        document_type=document_type if to == "pending" else case.document_type,
        tokens=case.tokens if tokens is None else tokens,
        evaluate_ms=evaluate_ms,
        completed_ms=now_ms if to in COMPLETED else None,
        expires_ms=expires_ms,
    )
