"""Transactions, and the simulated network of test mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stanchion import inputs, records
from stanchion.compat import Unpack
from stanchion.errors import NotDecidedError
from stanchion.operations import PAGE_SIZE, AnyTransport, Call, Resource, operation, rows, workflow
from stanchion.protocol import Actions, Pause

POLL_SECONDS: Final = 0.02
POLL_SECONDS_MAX: Final = 0.5


class Transactions(Resource[AnyTransport]):
    """Transactions with the trace of their decisions."""

    @operation("GET", "/v1/transactions/{id}")
    def get(self, id_: str) -> Call[records.Transaction]:
        """One transaction with the trace of its decision."""
        return Call(id_)

    @operation("PATCH", "/v1/transactions/{id}")
    def update(
        self,
        id_: str,
        *,
        metadata: Mapping[str, str | None] | None,
        idempotency_key: str | None = None,
    ) -> Call[records.Transaction]:
        """Change the metadata: ``None`` as a value removes a pair, ``None`` as the whole removes all."""
        return Call(id_, body={"metadata": metadata}, key=idempotency_key)

    @operation("POST", "/v1/transactions/{id}/replay")
    def replay(self, id_: str, *, idempotency_key: str | None = None) -> Call[records.Replay]:
        """Make the decision again from its stored inputs."""
        return Call(id_, body={}, key=idempotency_key)

    @rows("/v1/transactions")
    def list(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        page_size: int = PAGE_SIZE,
        **filters: Unpack[inputs.TransactionFilter],
    ) -> Call[records.Transaction]:
        """All transactions, or those that match; ``from_`` and ``to`` are a half-open window of instants."""
        return Call(query={**filters, "from": from_, "to": to, "limit": page_size})


class Simulations(Resource[AnyTransport]):
    """Test mode: the simulated network plays the merchant's side over ISO 8583."""

    @operation("POST", "/v1/simulated-spends")
    def spend(self, **fields: Unpack[inputs.SpendFields]) -> Call[records.Acceptance]:
        """Send one authorization. Each accepted call is a new transaction, so the client does not repeat it
        after a NoAnswerError: the first one may have been sent."""
        return Call(body=fields)

    @operation("GET", "/v1/simulated-spends/{id}")
    def get(self, id_: str) -> Call[records.Simulation]:
        """The record of a spend, increment, reversal or clearing."""
        return Call(id_)

    @rows("/v1/simulated-spends")
    def list(
        self,
        *,
        card_id: str | None = None,
        transaction_id: str | None = None,
        operation: str | None = None,
        state: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Call[records.Simulation]:
        """All simulations, or those that match."""
        query = {"card_id": card_id, "transaction_id": transaction_id, "operation": operation, "state": state}
        return Call(query=query | {"limit": page_size})

    @operation("POST", "/v1/simulated-spends/{id}/increment")
    def increment(
        self, id_: str, raise_by_amount: records.Money, *, idempotency_key: str | None = None
    ) -> Call[records.FollowUp]:
        """Raise the hold of an approved spend."""
        return Call(id_, body={"raise_by_amount": raise_by_amount}, key=idempotency_key)

    @operation("POST", "/v1/simulated-spends/{id}/reverse")
    def reverse(
        self,
        id_: str,
        lower_by_amount: records.Money | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Call[records.FollowUp]:
        """Release the hold, or a part of it."""
        return Call(id_, body=_given(lower_by_amount=lower_by_amount), key=idempotency_key)

    @operation("POST", "/v1/simulated-spends/{id}/clear")
    def clear(
        self,
        id_: str,
        amount: records.Money | None = None,
        *,
        final: bool = True,
        idempotency_key: str | None = None,
    ) -> Call[records.FollowUp]:
        """Present the sale, in full or in part."""
        return Call(id_, body=_given(amount=amount, final=final), key=idempotency_key)

    @operation("POST", "/v1/simulated-spends/{id}/expire")
    def expire(self, id_: str, *, idempotency_key: str | None = None) -> Call[records.ExpiredHold]:
        """Let the hold lapse now, as if its time had passed."""
        return Call(id_, body={}, key=idempotency_key)

    @operation("POST", "/v1/simulated-clearings")
    def force_post(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.ForcePostFields]
    ) -> Call[records.Acceptance]:
        """Force post: clearing without prior authorization."""
        return Call(body=fields, key=idempotency_key)

    @workflow
    def wait(self, id_: str, *, seconds: float = 20.0) -> Actions[records.Simulation]:
        """Poll until the simulation is ``decided`` or ``failed``. Raises NotDecidedError after
        ``seconds``."""
        clock = self.transport.protocol.clock
        deadline = clock() + seconds
        pause = POLL_SECONDS
        while True:
            simulation = yield from Simulations.get.actions(self, id_)
            if simulation["state"] in ("decided", "failed"):
                return simulation
            if clock() > deadline:
                raise NotDecidedError(f"simulation {id_} is {simulation['state']} after {seconds:g} s")
            yield Pause(pause)
            pause = min(POLL_SECONDS_MAX, pause * 1.5)


def _given(**members: Any) -> Mapping[str, Any]:
    """The members that are not None."""
    return {name: value for name, value in members.items() if value is not None}
