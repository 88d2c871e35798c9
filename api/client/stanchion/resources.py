"""The operations of each kind of resource. Spec section 4 and the API's own description say what they do.

Every method may raise what ``Transport.request`` raises. ``idempotency_key``: your own, to be able to ask
again after a crash; left out, a fresh one.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, Unpack

from stanchion import inputs, records
from stanchion.errors import NotDecidedError
from stanchion.transport import Transport

PAGE_SIZE: Final = 100
POLL_SECONDS: Final = 0.02
POLL_SECONDS_MAX: Final = 0.5


class Resource:
    """What all kinds share."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def _get(self, path: str) -> Any:
        return self._transport.request("GET", path)

    def _post(self, path: str, body: Mapping[str, Any], key: str | None) -> Any:
        return self._transport.request("POST", path, body=body, idempotency_key=key)

    def _patch(self, path: str, body: Mapping[str, Any], key: str | None) -> Any:
        return self._transport.request("PATCH", path, body=body, idempotency_key=key)

    def _walk(self, path: str, query: Mapping[str, Any], page_size: int = PAGE_SIZE) -> Iterator[Any]:
        """Every row, newest first; a page is fetched when its first row is asked for."""
        cursor: str | None = None
        while True:
            page = self._transport.request(
                "GET", path, query={**query, "limit": page_size, "starting_after": cursor}
            )
            yield from page["data"]
            cursor = page["next_cursor"]
            if not page["has_more"]:
                return


class Programs(Resource):
    """Programmes."""

    def create(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.ProgrammeFields]
    ) -> records.NewProgramme:
        programme: records.NewProgramme = self._post("/v1/programs", fields, idempotency_key)
        return programme

    def get(self, id_: str) -> records.Programme:
        programme: records.Programme = self._get(f"/v1/programs/{id_}")
        return programme

    def update(
        self, id_: str, *, idempotency_key: str | None = None, **change: Unpack[inputs.ProgrammeChange]
    ) -> records.Programme:
        programme: records.Programme = self._patch(f"/v1/programs/{id_}", change, idempotency_key)
        return programme

    def list(self, *, page_size: int = PAGE_SIZE) -> Iterator[records.Programme]:
        return self._walk("/v1/programs", {}, page_size)

    def stip_policy(self, id_: str) -> records.StandInPolicy:
        """What may be approved while the programme's own decisions cannot be had."""
        policy: records.StandInPolicy = self._get(f"/v1/programs/{id_}/stip-policy")
        return policy

    def set_stip_policy(
        self, id_: str, *, idempotency_key: str | None = None, **fields: Unpack[inputs.StandInPolicyFields]
    ) -> records.StandInPolicy:
        """Replace the whole policy: what is left out has its default afterwards."""
        path = f"/v1/programs/{id_}/stip-policy"
        policy: records.StandInPolicy = self._transport.request(
            "PUT", path, body=fields, idempotency_key=idempotency_key
        )
        return policy

    def stip_activity(
        self, id_: str, from_: str, to: str, *, page_size: int = PAGE_SIZE
    ) -> Iterator[records.StandIn]:
        """Decisions in stand-in of a window of at most 90 days."""
        return self._walk(f"/v1/programs/{id_}/stip-activity", {"from": from_, "to": to}, page_size)


class CardProducts(Resource):
    """Card products."""

    def create(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.CardProductFields]
    ) -> records.CardProduct:
        product: records.CardProduct = self._post("/v1/card-products", fields, idempotency_key)
        return product

    def get(self, id_: str) -> records.CardProduct:
        product: records.CardProduct = self._get(f"/v1/card-products/{id_}")
        return product

    def retire(self, id_: str, *, idempotency_key: str | None = None) -> records.CardProduct:
        """No more cards of it."""
        product: records.CardProduct = self._post(f"/v1/card-products/{id_}/retire", {}, idempotency_key)
        return product

    def list(
        self, *, programme_id: str | None = None, page_size: int = PAGE_SIZE
    ) -> Iterator[records.CardProduct]:
        return self._walk("/v1/card-products", {"programme_id": programme_id}, page_size)


class Cardholders(Resource):
    """Cardholders."""

    def create(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.CardholderFields]
    ) -> records.Cardholder:
        holder: records.Cardholder = self._post("/v1/cardholders", fields, idempotency_key)
        return holder

    def get(self, id_: str) -> records.Cardholder:
        holder: records.Cardholder = self._get(f"/v1/cardholders/{id_}")
        return holder

    def update(
        self, id_: str, *, idempotency_key: str | None = None, **change: Unpack[inputs.CardholderChange]
    ) -> records.Cardholder:
        holder: records.Cardholder = self._patch(f"/v1/cardholders/{id_}", change, idempotency_key)
        return holder

    def list(
        self,
        *,
        programme_id: str | None = None,
        external_ref: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Iterator[records.Cardholder]:
        query = {"programme_id": programme_id, "external_ref": external_ref}
        return self._walk("/v1/cardholders", query, page_size)


class Cards(Resource):
    """Cards, and in test mode money for them."""

    def create(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.CardFields]
    ) -> records.Card:
        card: records.Card = self._post("/v1/cards", fields, idempotency_key)
        return card

    def get(self, id_: str) -> records.Card:
        card: records.Card = self._get(f"/v1/cards/{id_}")
        return card

    def update(
        self, id_: str, *, idempotency_key: str | None = None, **change: Unpack[inputs.CardChange]
    ) -> records.Card:
        card: records.Card = self._patch(f"/v1/cards/{id_}", change, idempotency_key)
        return card

    def balance(self, id_: str) -> records.Balance:
        balance: records.Balance = self._get(f"/v1/cards/{id_}/balance")
        return balance

    def load(self, id_: str, amount: records.Money, *, idempotency_key: str | None = None) -> records.Load:
        """Put money on a card; test mode only."""
        body = {"card_id": id_, "amount": amount}
        load: records.Load = self._post("/v1/simulated-loads", body, idempotency_key)
        return load

    def cvv2(self, id_: str, *, idempotency_key: str | None = None) -> str:
        """The three digits of the card's back; test mode only."""
        computed: str = self._post(f"/v1/cards/{id_}/cvv2", {}, idempotency_key)["cvv2"]
        return computed

    def list(
        self,
        *,
        cardholder_id: str | None = None,
        programme_id: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Iterator[records.Card]:
        query = {"cardholder_id": cardholder_id, "programme_id": programme_id}
        return self._walk("/v1/cards", query, page_size)

    def batch(self, ids: Sequence[str]) -> builtins.list[records.Card]:
        """These cards (1 to 100), newest first; unknown ids are left out."""
        page = self._transport.request("GET", "/v1/cards", query={"ids": ",".join(ids)})
        cards: builtins.list[records.Card] = page["data"]
        return cards


class Transactions(Resource):
    """Transactions: what happened on cards, and why."""

    def get(self, id_: str) -> records.Transaction:
        transaction: records.Transaction = self._get(f"/v1/transactions/{id_}")
        return transaction

    def replay(self, id_: str, *, idempotency_key: str | None = None) -> records.Replay:
        """Make the decision again from its stored inputs."""
        replay: records.Replay = self._post(f"/v1/transactions/{id_}/replay", {}, idempotency_key)
        return replay

    def list(
        self, *, page_size: int = PAGE_SIZE, **filters: Unpack[inputs.TransactionFilter]
    ) -> Iterator[records.Transaction]:
        return self._walk("/v1/transactions", filters, page_size)


class Events(Resource):
    """The event log of the last 30 days."""

    def get(self, id_: str) -> records.Event:
        event: records.Event = self._get(f"/v1/events/{id_}")
        return event

    def list(
        self,
        *,
        types: Sequence[str] = (),
        from_: str | None = None,
        to: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Iterator[records.Event]:
        """``from_`` and ``to``: a half-open window of instants."""
        query = {"types": ",".join(types) or None, "from": from_, "to": to}
        return self._walk("/v1/events", query, page_size)

    def types(self) -> builtins.list[records.EventType]:
        """The catalogue: all types, with a schema for the data of each."""
        types: builtins.list[records.EventType] = self._get("/v1/event-types")["data"]
        return types

    def redeliver(
        self, id_: str, *, endpoint_id: str, idempotency_key: str | None = None
    ) -> records.Redelivery:
        """Send an event to one endpoint once more."""
        redelivery: records.Redelivery = self._post(
            f"/v1/events/{id_}/redeliver", {"endpoint_id": endpoint_id}, idempotency_key
        )
        return redelivery


class WebhookEndpoints(Resource):
    """Where events are sent, and what has become of each delivery."""

    def create(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.WebhookEndpointFields]
    ) -> records.WebhookEndpointSecret:
        endpoint: records.WebhookEndpointSecret = self._post("/v1/webhook-endpoints", fields, idempotency_key)
        return endpoint

    def get(self, id_: str) -> records.WebhookEndpoint:
        endpoint: records.WebhookEndpoint = self._get(f"/v1/webhook-endpoints/{id_}")
        return endpoint

    def update(
        self, id_: str, *, idempotency_key: str | None = None, **change: Unpack[inputs.WebhookEndpointChange]
    ) -> records.WebhookEndpoint:
        endpoint: records.WebhookEndpoint = self._patch(
            f"/v1/webhook-endpoints/{id_}", change, idempotency_key
        )
        return endpoint

    def delete(self, id_: str, *, idempotency_key: str | None = None) -> None:
        self._transport.request("DELETE", f"/v1/webhook-endpoints/{id_}", idempotency_key=idempotency_key)

    def rotate_secret(self, id_: str, *, idempotency_key: str | None = None) -> records.WebhookEndpointSecret:
        """A new signing secret; the one before signs as well for 24 hours."""
        endpoint: records.WebhookEndpointSecret = self._post(
            f"/v1/webhook-endpoints/{id_}/rotate-secret", {}, idempotency_key
        )
        return endpoint

    def list(self, *, page_size: int = PAGE_SIZE) -> Iterator[records.WebhookEndpoint]:
        return self._walk("/v1/webhook-endpoints", {}, page_size)

    def deliveries(
        self,
        id_: str,
        *,
        state: Literal["pending", "delivered", "failed"] | None = None,
        event_id: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Iterator[records.Delivery]:
        """The deliveries of the last 30 days with their attempts."""
        query = {"state": state, "event_id": event_id}
        return self._walk(f"/v1/webhook-endpoints/{id_}/deliveries", query, page_size)


class Simulations(Resource):
    """Test mode: a network that plays the merchant's side, over the real wire."""

    def spend(self, **fields: Unpack[inputs.SpendFields]) -> records.Acceptance:
        """Send one authorization. Each accepted call is a transaction of its own, so after a NoAnswerError
        nothing is repeated: whether it went out is not known."""
        accepted: records.Acceptance = self._transport.request("POST", "/v1/simulated-spends", body=fields)
        return accepted

    def get(self, id_: str) -> records.Simulation:
        simulation: records.Simulation = self._get(f"/v1/simulated-spends/{id_}")
        return simulation

    def increment(
        self, id_: str, raise_by_amount: records.Money, *, idempotency_key: str | None = None
    ) -> records.Child:
        """Raise the hold of an approved spend."""
        return self._follow(id_, "increment", {"raise_by_amount": raise_by_amount}, idempotency_key)

    def reverse(
        self,
        id_: str,
        lower_by_amount: records.Money | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> records.Child:
        """Give back all that is held, or a part of it."""
        body = {} if lower_by_amount is None else {"lower_by_amount": lower_by_amount}
        return self._follow(id_, "reverse", body, idempotency_key)

    def clear(
        self,
        id_: str,
        amount: records.Money | None = None,
        *,
        final: bool = True,
        idempotency_key: str | None = None,
    ) -> records.Child:
        """Present the sale, in full or a part of it."""
        body: dict[str, Any] = {"final": final} | ({} if amount is None else {"amount": amount})
        return self._follow(id_, "clear", body, idempotency_key)

    def force_post(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.ForcePostFields]
    ) -> records.Acceptance:
        """Present a sale that no authorization came before."""
        accepted: records.Acceptance = self._post("/v1/simulated-clearings", fields, idempotency_key)
        return accepted

    def wait(self, id_: str, *, seconds: float = 20.0) -> records.Simulation:
        """The record once it is ``decided`` or ``failed``. Raises NotDecidedError after ``seconds``."""
        deadline = time.monotonic() + seconds
        pause = POLL_SECONDS
        while (simulation := self.get(id_))["state"] not in ("decided", "failed"):
            if time.monotonic() > deadline:
                raise NotDecidedError(f"simulation {id_} is {simulation['state']} after {seconds:g} s")
            time.sleep(pause)
            pause = min(POLL_SECONDS_MAX, pause * 1.5)
        return simulation

    def _follow(self, id_: str, how: str, body: Mapping[str, Any], key: str | None) -> records.Child:
        child: records.Child = self._post(f"/v1/simulated-spends/{id_}/{how}", body, key)
        return child
