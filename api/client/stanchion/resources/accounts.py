"""Accounts, transfers and ledger entries."""

from __future__ import annotations

from stanchion import inputs, records
from stanchion.compat import Unpack
from stanchion.operations import PAGE_SIZE, AnyTransport, Call, Resource, operation, rows


class Accounts(Resource[AnyTransport]):
    """Accounts of cards, and each programme's funding source and settlement account."""

    @operation("GET", "/v1/accounts/{id}")
    def get(self, id_: str) -> Call[records.Account]:
        """One account with its current balance."""
        return Call(id_)

    @rows("/v1/accounts")
    def list(
        self,
        *,
        programme_id: str | None = None,
        kind: records.AccountKind | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Call[records.Account]:
        """All accounts, or those of a programme or a kind."""
        return Call(query={"programme_id": programme_id, "kind": kind, "limit": page_size})


class Transfers(Resource[AnyTransport]):
    """Money between an account and its programme's funding source."""

    @operation("POST", "/v1/transfers")
    def create(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.TransferFields]
    ) -> Call[records.Transfer]:
        """Post a transfer. After the answer it is durable."""
        return Call(body=fields, key=idempotency_key)

    @operation("GET", "/v1/transfers/{id}")
    def get(self, id_: str) -> Call[records.Transfer]:
        """One transfer."""
        return Call(id_)

    @operation("POST", "/v1/transfers/{id}/reverse")
    def reverse(
        self, id_: str, *, allow_negative: bool = False, idempotency_key: str | None = None
    ) -> Call[records.Transfer]:
        """Reverse a transfer, once and in full."""
        return Call(id_, body={"allow_negative": allow_negative}, key=idempotency_key)

    @rows("/v1/transfers")
    def list(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        page_size: int = PAGE_SIZE,
        **filters: Unpack[inputs.TransferFilter],
    ) -> Call[records.Transfer]:
        """All transfers, or those that match; ``from_`` and ``to`` are a half-open window of instants."""
        return Call(query={**filters, "from": from_, "to": to, "limit": page_size})


class LedgerEntries(Resource[AnyTransport]):
    """The ledger, double entry and append-only."""

    @rows("/v1/ledger-entries")
    def list(
        self,
        *,
        from_: str | None = None,
        to: str | None = None,
        page_size: int = PAGE_SIZE,
        **filters: Unpack[inputs.EntryFilter],
    ) -> Call[records.LedgerEntry]:
        """The entries of an account, an authorization or a transfer; at least one of them must be given."""
        return Call(query={**filters, "from": from_, "to": to, "limit": page_size})
