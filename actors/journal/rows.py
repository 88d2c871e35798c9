"""The rows that a commit writes, one class for each row type of the function ``commit_batch_v3``, and those
that few commits have (``commit_rare_rows.sql``).

Owners write them, the in-memory twin stores them, and ``tests/actors/journal/test_rows.py`` compares their
fields with the row types in a real database. Fields stand in the order of the columns. Amounts are integers
of minor units, instants are milliseconds since the epoch, JSON is text.

A ``None`` in a row of ``changed_holds`` or ``changed_transactions`` leaves the column as it is.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.decision.compact_layout import StoredRow

new_row: Final = tuple.__new__
"""``new_row(UsageRow, (…))`` makes a ``UsageRow`` at the cost of a tuple, for the rows of every decision.
It does not check the fields; a test does."""


class JournalRow(NamedTuple):
    """An executed command. Its texts are JSON in full or compact (``engine.decision.compact``)."""

    actor_id: str
    seq: int
    epoch: int
    command_key: bytes
    fingerprint: bytes | None
    kind: str
    command: str
    inputs: str | None
    decision: str | None
    reply: str
    recorded_at: int
    authorization_id: str | None


def stored_row(row: JournalRow) -> StoredRow:
    """The columns that compact texts need."""
    return StoredRow(
        row.actor_id,
        row.seq,
        row.command_key,
        row.fingerprint,
        row.command,
        row.inputs,
        row.decision,
        row.reply,
        row.recorded_at,
        row.authorization_id,
    )


class UsageRow(NamedTuple):
    """A card's counters."""

    card_id: str
    seq: int
    day: str
    day_count: int
    day_amount_minor: int
    cvv2_failures: int


class AccountRow(NamedTuple):
    """An account's balance."""

    id: str
    tenant_id: str
    live: bool
    programme_id: str
    kind: str
    currency: str
    posted_minor: int
    held_minor: int
    version: int


class HoldRow(NamedTuple):
    """A hold, or the change of one."""

    id: str
    account_id: str | None
    card_id: str | None
    authorization_id: str | None
    amount_minor: int | None
    state: str
    expires_at: int | None


class TransactionRow(NamedTuple):
    """A transaction, or the change of one."""

    id: str
    tenant_id: str | None
    live: bool | None
    card_id: str | None
    cardholder_id: str | None
    programme_id: str | None
    seq: int | None
    kind: str | None
    status: str
    hold_id: str | None
    currency: str | None
    requested_minor: int | None
    approved_minor: int
    held_minor: int
    cleared_minor: int
    reversed_minor: int
    decline_reason: str | None
    created_at: int | None
    updated_at: int
    network_txn_id: str | None
    day: str | None
    remainder_minor: int | None
    closed: str | None
    mcc: str | None
    rrn: str | None


class TombstoneRow(NamedTuple):
    """A reference that a card refuses."""

    card_id: str
    reference: str
    recorded_at: int


class EntryRow(NamedTuple):
    """A ledger entry."""

    id: str
    transfer_id: str
    account_id: str
    direction: str
    amount_minor: int
    currency: str
    authorization_id: str | None
    occurred_at: int


class EventRow(NamedTuple):
    """An event, or the two events of an approval. The database fills ``txid``. Without ``data``, ``type`` is
    a code, and readers make the data from the journal (``engine.authorization.compact_events``)."""

    id: str
    tenant_id: str
    live: bool
    type: str
    created_at: int
    data: str | None
    txid: int | None


class IdempotencyRow(NamedTuple):
    """A stored response; ``body`` is sealed."""

    key_digest: bytes
    fingerprint: bytes
    status: int
    body: bytes
    created_at: int


class CardRow(NamedTuple):
    """A card without its counters."""

    id: str
    tenant_id: str
    live: bool
    programme_id: str
    card_product_id: str
    cardholder_id: str
    account_id: str | None
    network: str
    currency: str
    iin: str
    last4: str
    pan_ref: str
    exp_month: int
    exp_year: int
    cvk_generation: str
    state: str
    state_reason: str | None
    controls: str
    cardholder_active: bool
    created_at: int


class ReplacementRow(NamedTuple):
    """A card and its replacement."""

    card_id: str
    replacement_id: str
    reason: str
    replaced_at: int


class RuleRow(NamedTuple):
    """An authorization rule after a change; ``rule`` is JSON of ``engine.rules.model.Rule``."""

    id: str
    tenant_id: str
    live: bool
    programme_id: str
    scope_type: str
    scope_id: str
    name: str
    state: str
    version: int
    rule: str
    created_at: int
    updated_at: int


class RuleMatchRow(NamedTuple):
    """A decision that a rule declined, or that a shadow rule would have declined."""

    rule_id: str
    decision_id: str
    version: int
    shadow: bool
    authorization_id: str
    card_id: str
    day: str
    decided: str
    amount_minor: int
    currency: str
    mcc: str
    country: str
    decided_at: int


class DeclaredRow(NamedTuple):
    """A declared balance."""

    card_id: str
    balance_minor: int
    consumed_minor: int
    declared_at: int


class ProgrammeRow(NamedTuple):
    """A programme."""

    id: str
    tenant_id: str
    live: bool
    version: int
    seq: int
    config: str
    decision_secret_sealed: bytes | None
    outage: str | None


class OutageRow(NamedTuple):
    """One period of an outage."""

    id: str
    period: int
    tenant_id: str
    live: bool
    programme_id: str
    currency: str | None
    used_minor: int
    started_at: int
    ended_at: int | None


class ActRow(NamedTuple):
    """A row of the audit log (function ``record_acts``); ``before`` and ``after`` are JSON."""

    id: str
    tenant_id: str | None
    live: bool | None
    recorded_at: int
    actor_kind: str
    actor: str
    act: str
    object_kind: str
    object_id: str | None
    before: str | None
    after: str | None
    request_id: str


class StandInRow(NamedTuple):
    """A decision in stand-in."""

    id: str
    tenant_id: str
    live: bool
    programme_id: str
    card_id: str
    authorization_id: str
    outage_id: str | None
    decided_at: int
    decision: str
    rule: str
    trigger: str
    amount_minor: int
    currency: str
    mcc: str
    exposure_minor: int
    budget_used_minor: int
    budget_limit_minor: int | None
    response_code: str
    stan: str
    rrn: str
