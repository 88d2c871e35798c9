"""Back-tests of changes of controls and authorization rules."""

from __future__ import annotations

from typing import Final

from stanchion import inputs, records
from stanchion.compat import Unpack
from stanchion.errors import NotDecidedError
from stanchion.operations import PAGE_SIZE, AnyTransport, Call, Resource, operation, rows, workflow
from stanchion.protocol import Actions, Pause

POLL_SECONDS: Final = 0.1
POLL_SECONDS_MAX: Final = 2.0


class Backtests(Resource[AnyTransport]):
    """Recorded decisions, made again under a change."""

    @operation("POST", "/v1/backtests")
    def create(
        self,
        from_: str,
        to: str,
        *,
        idempotency_key: str | None = None,
        **fields: Unpack[inputs.BacktestFields],
    ) -> Call[records.Backtest]:
        """Begin a back-test of the half-open window from ``from_`` to ``to``, at most 92 days."""
        return Call(body={"from": from_, "to": to, **fields}, key=idempotency_key)

    @operation("GET", "/v1/backtests/{id}")
    def get(self, id_: str) -> Call[records.Backtest]:
        """One back-test, with its progress or its result."""
        return Call(id_)

    @operation("DELETE", "/v1/backtests/{id}")
    def cancel(self, id_: str, *, idempotency_key: str | None = None) -> Call[records.Backtest]:
        """Cancel a back-test that is queued or running."""
        return Call(id_, key=idempotency_key)

    @rows("/v1/backtests")
    def list(self, *, page_size: int = PAGE_SIZE) -> Call[records.Backtest]:
        """The back-tests of the last 30 days."""
        return Call(query={"limit": page_size})

    @rows("/v1/backtests/{id}/flips")
    def flips(
        self, id_: str, *, direction: records.FlipDirection | None = None, page_size: int = PAGE_SIZE
    ) -> Call[records.Flip]:
        """The decisions that the change turns, each with both traces."""
        return Call(id_, query={"direction": direction, "limit": page_size})

    @operation("GET", "/v1/backtests/{id}/flips.csv")
    def flips_csv(self, id_: str) -> Call[str]:
        """The decisions that the change turns, as CSV."""
        return Call(id_)

    @workflow
    def wait(self, id_: str, *, seconds: float = 3_600.0) -> Actions[records.Backtest]:
        """Poll until the back-test is ``done``, ``failed`` or ``cancelled``. Raises NotDecidedError after
        ``seconds``."""
        clock = self.transport.protocol.clock
        deadline = clock() + seconds
        pause = POLL_SECONDS
        while True:
            backtest = yield from Backtests.get.actions(self, id_)
            if backtest["state"] not in ("queued", "running"):
                return backtest
            if clock() > deadline:
                raise NotDecidedError(f"back-test {id_} is {backtest['state']} after {seconds:g} s")
            yield Pause(pause)
            pause = min(POLL_SECONDS_MAX, pause * 1.5)
