"""The original of a follow-up: its row, and the conditions for each kind of follow-up.

The remaining hold is the smaller of two figures: the transaction's at this instant, and that of the simulated
network, which includes messages in flight.
"""

from __future__ import annotations

from typing import Final

import asyncpg
import msgspec

from api.database.pool import Connection
from api.http.fields import MoneyInput
from api.http.problems import Refusal, not_found
from api.simulations.record import APPROVALS
from engine.instant import to_ms
from engine.money import format_minor
from engine.replies import IdempotencyClaim
from engine.simulation import Acceptance, FollowUpRecord, Original, SpendRequest

_FIND: Final = """
    SELECT s.operation, s.state, s.request, s.stan, s.rrn, s.network_txn_id, s.response_code, s.card_id::text,
           s.authorization_id::text, c.state AS card_state, b.open_minor, t.closed IS NOT NULL AS closed,
           CASE WHEN h.state = 'held' AND h.expires_at > now() THEN h.amount_minor
                WHEN t.hold_id IS NULL AND t.closed IS NULL THEN t.remainder_minor
                ELSE 0 END AS held_minor
    FROM simulations s
    JOIN cards c ON c.id = s.card_id
    LEFT JOIN transactions t ON t.tenant_id = s.tenant_id AND t.live = false AND t.id = s.authorization_id
    LEFT JOIN holds h ON h.id = t.hold_id
    LEFT JOIN clearing_schedule b ON b.simulation_id = s.id
    WHERE s.id = $1::uuid AND s.tenant_id = $2
"""
_STARTED: Final = """
    SELECT id::text, request, stan, rrn, network_txn_id, accepted_at FROM simulations
    WHERE id = $1::uuid AND tenant_id = $2
"""
_request = msgspec.json.Decoder(SpendRequest).decode
_record = msgspec.json.Decoder(FollowUpRecord).decode


class ParentSimulation(msgspec.Struct, frozen=True):
    """The simulation that a follow-up refers to."""

    request: SpendRequest
    operation: str
    state: str
    stan: str | None
    rrn: str | None
    network_txn_id: str | None
    response_code: str | None
    authorization_id: str | None
    card_state: str
    held_minor: int
    """Amount that can still be reversed: of the hold, or in gateway mode of the amount still to be posted."""
    open_minor: int
    """Amount that the network has not presented yet."""
    closed: bool
    """Whether the authorization was fully captured or fully reversed."""

    def original(self) -> Original:
        """The sale as the network knows it. Raises ``Refusal`` 409 when it cannot be named on the wire."""
        if self.network_txn_id is None:
            raise Refusal("network-transaction-unknown")
        if self.stan is None or self.rrn is None:
            raise Refusal("wire-identity-unknown")
        return Original(
            request=self.request, stan=self.stan, rrn=self.rrn, network_txn_id=self.network_txn_id
        )

    def require_purchase(self) -> None:
        """Raise ``Refusal`` 400 for a refund, which has no hold."""
        if self.request.kind == "refund":
            raise Refusal("refund-simulation")

    def require_currency(self, amount: MoneyInput | None) -> None:
        """Raise ``Refusal`` 400 unless ``amount`` is in the currency of the simulation."""
        if amount is not None and amount.currency != self.request.currency:
            raise Refusal("currency-mismatch", "The amount must be in the currency of the simulation.")

    def require_approved(self) -> None:
        """Raise ``Refusal`` 409 unless this is a spend of its own, decided and approved."""
        if self.operation != "spend":
            article = "an" if self.operation[0] in "aeiou" else "a"
            raise Refusal("child-simulation", f"The simulation is itself {article} {self.operation}.")
        if self.state != "decided":
            raise Refusal("simulation-not-approved", f"The simulation is {self.state}, not decided.")
        if self.response_code not in APPROVALS:
            raise Refusal("simulation-not-approved", "The simulation was declined.")

    def require_unfinished(self) -> None:
        """Raise ``Refusal`` 409 when the sale has no open amount, here or at the network: an increment would
        be decided as a new authorization."""
        if self.closed or not self.open_minor:
            raise Refusal("sale-finished")

    def require_active_card(self) -> None:
        """Raise ``Refusal`` 409 unless new authorizations can be simulated on the card."""
        if self.card_state != "active":
            raise Refusal("card-not-active", f"The card is {self.card_state}.")

    def require_held(self, amount: MoneyInput | None) -> None:
        """Raise ``Refusal`` 409 without a hold, 400 when the hold is smaller than ``amount``."""
        if not self.held_minor:
            raise Refusal("nothing-held")
        if amount is not None and amount.minor > self.held_minor:
            held = f"{format_minor(self.held_minor)} {self.request.currency}"
            raise Refusal("amount-exceeds-hold", f"Only {held} is still held.")

    def require_open(self, amount: MoneyInput | None) -> None:
        """Raise ``Refusal`` 409 when the whole rest is to be presented and the rest is zero."""
        if amount is None and not self.open_minor and self.request.kind == "purchase":
            raise Refusal("nothing-to-clear")


async def find(connection: Connection, simulation_id: str, tenant_id: str) -> ParentSimulation:
    """The tenant's simulation. Raises ``Refusal`` 404."""
    row = await connection.fetchrow(_FIND, simulation_id, tenant_id)
    if row is None:
        raise not_found()
    open_minor = row["open_minor"] or 0
    # The network's own decisions may not have arrived here yet.
    held_minor = open_minor if row["held_minor"] is None else min(row["held_minor"], open_minor)
    names = ("operation", "state", "stan", "rrn", "network_txn_id", "response_code", "authorization_id")
    return ParentSimulation(
        request=_request(row["request"]),
        **{name: row[name] for name in names},
        card_state=row["card_state"],
        held_minor=held_minor,
        open_minor=open_minor,
        closed=row["closed"],
    )


async def started(
    connection: Connection, simulation_id: str, tenant_id: str, claim: IdempotencyClaim
) -> Acceptance | None:
    """The acceptance of a follow-up that a request with this key has started before, if one has.

    Raises ``Refusal`` ``idempotency-key-reused`` when that was another request.
    """
    row = await connection.fetchrow(_STARTED, simulation_id, tenant_id)
    if row is None:
        return None
    if _record(row["request"]).fingerprint != claim.fingerprint:
        raise Refusal("idempotency-key-reused")
    return _acceptance(row)


def _acceptance(row: asyncpg.Record) -> Acceptance:
    return Acceptance(
        simulation_id=row["id"],
        accepted_ms=to_ms(row["accepted_at"]),
        stan=row["stan"],
        rrn=row["rrn"],
        network_txn_id=row["network_txn_id"],
    )


def follow_up_id(beside: str, claim: IdempotencyClaim) -> str:
    """The id of the follow-up that a key starts: the same for every repetition, on the shard of ``beside``.

    A UUIDv7 with the time of ``beside``; its random bits are those of the key's digest. The network starts a
    simulation once, so a key starts one follow-up, even if the API server or the network dies on the way.
    """
    digits = claim.key_digest.hex()
    variant = "89ab"[claim.key_digest[8] & 3]
    return f"{beside[:13]}-7{digits[:3]}-{variant}{digits[3:6]}-{digits[6:16]}{beside[-2:]}"
