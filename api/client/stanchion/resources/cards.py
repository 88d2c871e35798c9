"""Card products, cardholders and their cards."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Unpack

from stanchion import inputs, records
from stanchion.operations import PAGE_SIZE, Ask, Family, Way, operation, rows


class CardProducts(Family[Way]):
    """Card products."""

    @operation("POST", "/v1/card-products")
    def create(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.CardProductFields]
    ) -> Ask[records.CardProduct]:
        """A new product, active at once."""
        return Ask(body=fields, key=idempotency_key)

    @operation("GET", "/v1/card-products/{id}")
    def get(self, id_: str) -> Ask[records.CardProduct]:
        """One product."""
        return Ask(id_)

    @operation("POST", "/v1/card-products/{id}/retire")
    def retire(self, id_: str, *, idempotency_key: str | None = None) -> Ask[records.CardProduct]:
        """No more cards of it."""
        return Ask(id_, body={}, key=idempotency_key)

    @rows("/v1/card-products")
    def list(
        self, *, programme_id: str | None = None, page_size: int = PAGE_SIZE
    ) -> Ask[records.CardProduct]:
        """All products, or a programme's."""
        return Ask(query={"programme_id": programme_id, "limit": page_size})


class Cardholders(Family[Way]):
    """Cardholders."""

    @operation("POST", "/v1/cardholders")
    def create(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.CardholderFields]
    ) -> Ask[records.Cardholder]:
        """A new cardholder."""
        return Ask(body=fields, key=idempotency_key)

    @operation("GET", "/v1/cardholders/{id}")
    def get(self, id_: str) -> Ask[records.Cardholder]:
        """One cardholder."""
        return Ask(id_)

    @operation("PATCH", "/v1/cardholders/{id}")
    def update(
        self, id_: str, *, idempotency_key: str | None = None, **change: Unpack[inputs.CardholderChange]
    ) -> Ask[records.Cardholder]:
        """Change some members."""
        return Ask(id_, body=change, key=idempotency_key)

    @operation("DELETE", "/v1/cardholders/{id}")
    def delete(self, id_: str, *, idempotency_key: str | None = None) -> Ask[None]:
        """Erase the personal data; the cards must be terminated, lost or stolen."""
        return Ask(id_, key=idempotency_key)

    @rows("/v1/cardholders")
    def list(
        self,
        *,
        programme_id: str | None = None,
        external_ref: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Ask[records.Cardholder]:
        """All cardholders, or those of a programme or a reference."""
        query = {"programme_id": programme_id, "external_ref": external_ref}
        return Ask(query=query | {"limit": page_size})


class Cards(Family[Way]):
    """Cards, and in test mode money for them."""

    @operation("POST", "/v1/cards")
    def create(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.CardFields]
    ) -> Ask[records.Card]:
        """Issue a card."""
        return Ask(body=fields, key=idempotency_key)

    @operation("GET", "/v1/cards/{id}")
    def get(self, id_: str) -> Ask[records.Card]:
        """One card."""
        return Ask(id_)

    @operation("PATCH", "/v1/cards/{id}")
    def update(
        self, id_: str, *, idempotency_key: str | None = None, **change: Unpack[inputs.CardChange]
    ) -> Ask[records.Card]:
        """In force for every later decision once it is answered."""
        return Ask(id_, body=change, key=idempotency_key)

    @operation("GET", "/v1/cards/{id}/balance")
    def balance(self, id_: str) -> Ask[records.Balance]:
        """What is on the card, what of it is held, and what is available."""
        return Ask(id_)

    @operation("POST", "/v1/simulated-loads")
    def load(
        self, id_: str, amount: records.Money, *, idempotency_key: str | None = None
    ) -> Ask[records.Load]:
        """Put money on a card; test mode only."""
        return Ask(body={"card_id": id_, "amount": amount}, key=idempotency_key)

    @operation("POST", "/v1/cards/{id}/cvv2")
    def cvv2(self, id_: str, *, idempotency_key: str | None = None) -> Ask[str]:
        """The three digits of the card's back; test mode only."""
        return Ask(id_, body={}, key=idempotency_key, member="cvv2")

    @rows("/v1/cards")
    def list(
        self,
        *,
        cardholder_id: str | None = None,
        programme_id: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Ask[records.Card]:
        """All cards, or those of a cardholder or a programme."""
        query = {"cardholder_id": cardholder_id, "programme_id": programme_id}
        return Ask(query=query | {"limit": page_size})

    @operation("GET", "/v1/cards")
    def batch(self, ids: Sequence[str]) -> Ask[builtins.list[records.Card]]:
        """These cards (1 to 100), newest first; unknown ids are left out."""
        return Ask(query={"ids": ",".join(ids)}, member="data")
