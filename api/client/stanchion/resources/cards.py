"""Card products, cardholders and their cards."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from stanchion import inputs, records
from stanchion.compat import Unpack
from stanchion.operations import PAGE_SIZE, AnyTransport, Call, Resource, operation, rows


class CardProducts(Resource[AnyTransport]):
    """Card products."""

    @operation("POST", "/v1/card-products")
    def create(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.CardProductFields]
    ) -> Call[records.CardProduct]:
        """Create a product, active at once."""
        return Call(body=fields, key=idempotency_key)

    @operation("GET", "/v1/card-products/{id}")
    def get(self, id_: str) -> Call[records.CardProduct]:
        """One product."""
        return Call(id_)

    @operation("PATCH", "/v1/card-products/{id}")
    def update(
        self, id_: str, *, idempotency_key: str | None = None, **change: Unpack[inputs.CardProductChange]
    ) -> Call[records.CardProduct]:
        """Change the reference or the metadata."""
        return Call(id_, body=change, key=idempotency_key)

    @operation("POST", "/v1/card-products/{id}/retire")
    def retire(self, id_: str, *, idempotency_key: str | None = None) -> Call[records.CardProduct]:
        """Retire a product: no more cards are issued under it."""
        return Call(id_, body={}, key=idempotency_key)

    @rows("/v1/card-products")
    def list(
        self, *, programme_id: str | None = None, page_size: int = PAGE_SIZE
    ) -> Call[records.CardProduct]:
        """All products, or a programme's."""
        return Call(query={"programme_id": programme_id, "limit": page_size})


class Cardholders(Resource[AnyTransport]):
    """Cardholders."""

    @operation("POST", "/v1/cardholders")
    def create(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.CardholderFields]
    ) -> Call[records.Cardholder]:
        """Create a cardholder."""
        return Call(body=fields, key=idempotency_key)

    @operation("GET", "/v1/cardholders/{id}")
    def get(self, id_: str) -> Call[records.Cardholder]:
        """One cardholder."""
        return Call(id_)

    @operation("PATCH", "/v1/cardholders/{id}")
    def update(
        self, id_: str, *, idempotency_key: str | None = None, **change: Unpack[inputs.CardholderChange]
    ) -> Call[records.Cardholder]:
        """Change some members."""
        return Call(id_, body=change, key=idempotency_key)

    @operation("DELETE", "/v1/cardholders/{id}")
    def delete(self, id_: str, *, idempotency_key: str | None = None) -> Call[None]:
        """Erase the personal data. All cards must be terminated, lost or stolen."""
        return Call(id_, key=idempotency_key)

    @rows("/v1/cardholders")
    def list(
        self,
        *,
        programme_id: str | None = None,
        email: str | None = None,
        external_ref: str | None = None,
        status: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Call[records.Cardholder]:
        """All cardholders, or those that match."""
        query = {"programme_id": programme_id, "email": email, "external_ref": external_ref, "status": status}
        return Call(query=query | {"limit": page_size})


class Cards(Resource[AnyTransport]):
    """Cards, and loads in test mode."""

    @operation("POST", "/v1/cards")
    def create(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.CardFields]
    ) -> Call[records.Card]:
        """Issue a card."""
        return Call(body=fields, key=idempotency_key)

    @operation("GET", "/v1/cards/{id}")
    def get(self, id_: str) -> Call[records.Card]:
        """One card."""
        return Call(id_)

    @operation("PATCH", "/v1/cards/{id}")
    def update(
        self, id_: str, *, idempotency_key: str | None = None, **change: Unpack[inputs.CardChange]
    ) -> Call[records.Card]:
        """Change some members. After the answer, the change is in force for every later decision."""
        return Call(id_, body=change, key=idempotency_key)

    @operation("POST", "/v1/cards/{id}/replace")
    def replace(
        self, id_: str, *, idempotency_key: str | None = None, **fields: Unpack[inputs.ReplacementFields]
    ) -> Call[records.Card]:
        """End a card, and issue a new one on the same account. Returns the new card."""
        return Call(id_, body=fields, key=idempotency_key)

    @operation("POST", "/v1/cards/{id}/reveal-sessions")
    def reveal(
        self, id_: str, *, parent_origins: Sequence[str] = (), idempotency_key: str | None = None
    ) -> Call[records.RevealSession]:
        """The address of a page that shows the card to its holder, once, within five minutes."""
        return Call(id_, body={"parent_origins": [*parent_origins]}, key=idempotency_key)

    @operation("GET", "/v1/cards/{id}/balance")
    def balance(self, id_: str) -> Call[records.Balance]:
        """The posted, held and available amounts."""
        return Call(id_)

    @operation("POST", "/v1/cards/{id}/evaluate")
    def evaluate(self, id_: str, **fields: Unpack[inputs.DryRunFields]) -> Call[records.DryRun]:
        """The decision on an authorization as it would be made now. Nothing changes."""
        return Call(id_, body=fields)

    @operation("GET", "/v1/cards/{id}/headroom")
    def headroom(self, id_: str, **query: Unpack[inputs.HeadroomQuery]) -> Call[records.Headroom]:
        """The largest amount that the card can spend at a merchant now, and the rule that binds it."""
        return Call(id_, query=query)

    @operation("POST", "/v1/simulated-loads")
    def load(
        self, id_: str, amount: records.Money, *, idempotency_key: str | None = None
    ) -> Call[records.Load]:
        """Load money on a card; test mode only."""
        return Call(body={"card_id": id_, "amount": amount}, key=idempotency_key)

    @operation("POST", "/v1/cards/{id}/cvv2")
    def cvv2(self, id_: str, *, idempotency_key: str | None = None) -> Call[str]:
        """The three digits of the card's back; test mode only."""
        return Call(id_, body={}, key=idempotency_key, member="cvv2")

    @rows("/v1/cards")
    def list(
        self,
        *,
        cardholder_id: str | None = None,
        programme_id: str | None = None,
        external_ref: str | None = None,
        last4: str | None = None,
        state: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Call[records.Card]:
        """All cards, or those that match."""
        query = {
            "cardholder_id": cardholder_id,
            "programme_id": programme_id,
            "external_ref": external_ref,
            "last4": last4,
            "state": state,
        }
        return Call(query=query | {"limit": page_size})

    @operation("GET", "/v1/cards")
    def batch(self, ids: Sequence[str]) -> Call[builtins.list[records.Card]]:
        """The cards with these ids (1 to 100), newest first, without unknown ids."""
        return Call(query={"ids": ",".join(ids)}, member="data")
