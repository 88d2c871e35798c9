"""What happened on cards, and a network of its own to make it happen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Unpack

from stanchion import inputs, records
from stanchion.conversation import Pause, Steps
from stanchion.errors import NotDecidedError
from stanchion.operations import PAGE_SIZE, Ask, Family, Way, course, operation, rows

POLL_SECONDS: Final = 0.02
POLL_SECONDS_MAX: Final = 0.5


class Transactions(Family[Way]):
    """Transactions: what happened on cards, and why."""

    @operation("GET", "/v1/transactions/{id}")
    def get(self, id_: str) -> Ask[records.Transaction]:
        """One transaction with the trace of its decision."""
        return Ask(id_)

    @operation("POST", "/v1/transactions/{id}/replay")
    def replay(self, id_: str, *, idempotency_key: str | None = None) -> Ask[records.Replay]:
        """Make the decision again from its stored inputs."""
        return Ask(id_, body={}, key=idempotency_key)

    @rows("/v1/transactions")
    def list(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        page_size: int = PAGE_SIZE,
        **filters: Unpack[inputs.TransactionFilter],
    ) -> Ask[records.Transaction]:
        """All transactions, or those that fit; ``from_`` and ``to``: a half-open window of instants."""
        return Ask(query={**filters, "from": from_, "to": to, "limit": page_size})


class Simulations(Family[Way]):
    """Test mode: a network that plays the merchant's side, over the real wire."""

    @operation("POST", "/v1/simulated-spends")
    def spend(self, **fields: Unpack[inputs.SpendFields]) -> Ask[records.Acceptance]:
        """Send one authorization. Each accepted call is a transaction of its own, so after a NoAnswerError
        nothing is repeated: whether it went out is not known."""
        return Ask(body=fields)

    @operation("GET", "/v1/simulated-spends/{id}")
    def get(self, id_: str) -> Ask[records.Simulation]:
        """The record of a spend, increment, reversal or clearing."""
        return Ask(id_)

    @operation("POST", "/v1/simulated-spends/{id}/increment")
    def increment(
        self, id_: str, raise_by_amount: records.Money, *, idempotency_key: str | None = None
    ) -> Ask[records.Child]:
        """Raise the hold of an approved spend."""
        return Ask(id_, body={"raise_by_amount": raise_by_amount}, key=idempotency_key)

    @operation("POST", "/v1/simulated-spends/{id}/reverse")
    def reverse(
        self,
        id_: str,
        lower_by_amount: records.Money | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Ask[records.Child]:
        """Give back all that is held, or a part of it."""
        return Ask(id_, body=_given(lower_by_amount=lower_by_amount), key=idempotency_key)

    @operation("POST", "/v1/simulated-spends/{id}/clear")
    def clear(
        self,
        id_: str,
        amount: records.Money | None = None,
        *,
        final: bool = True,
        idempotency_key: str | None = None,
    ) -> Ask[records.Child]:
        """Present the sale, in full or a part of it."""
        return Ask(id_, body=_given(amount=amount, final=final), key=idempotency_key)

    @operation("POST", "/v1/simulated-spends/{id}/expire")
    def expire(self, id_: str, *, idempotency_key: str | None = None) -> Ask[records.Lapsed]:
        """Let the hold lapse now, as if its time had passed."""
        return Ask(id_, body={}, key=idempotency_key)

    @operation("POST", "/v1/simulated-clearings")
    def force_post(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.ForcePostFields]
    ) -> Ask[records.Acceptance]:
        """Present a sale that no authorization came before."""
        return Ask(body=fields, key=idempotency_key)

    @course
    def wait(self, id_: str, *, seconds: float = 20.0) -> Steps[records.Simulation]:
        """The record once it is ``decided`` or ``failed``. Raises NotDecidedError after ``seconds``."""
        clock = self.transport.conversation.clock
        deadline = clock() + seconds
        pause = POLL_SECONDS
        while True:
            simulation = yield from Simulations.get.steps(self, id_)
            if simulation["state"] in ("decided", "failed"):
                return simulation
            if clock() > deadline:
                raise NotDecidedError(f"simulation {id_} is {simulation['state']} after {seconds:g} s")
            yield Pause(pause)
            pause = min(POLL_SECONDS_MAX, pause * 1.5)


def _given(**members: Any) -> Mapping[str, Any]:
    """The members that are there."""
    return {name: value for name, value in members.items() if value is not None}
