"""``stanchion decide``: a programme's decision endpoint on this machine, with a chosen behaviour.

It verifies and prints every request. Without ``--programme`` it creates a programme, a policy and a card,
and uses them again next time. When it ends, the programme decides as before.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from engine.money import format_minor, parse_amount
from ops.commands.decision_behaviours import BEHAVIOURS, Behaviour
from ops.commands.spend import spend_to_paste
from ops.embedded.local_https import Answer, Request, local_receiver, require_trust
from ops.embedded.passwords import write_private
from ops.supervision.installation import RUN_FILE
from stanchion import SIGNATURE_HEADER, Client, NotFoundError, SignatureError, money, verify_signature

PLAYGROUND_FILE: Final = "keys/decide.json"
LATE_SECONDS: Final = 0.5
"""Delay of a slow answer after its deadline."""
GARBAGE: Final = b"<html><body>It works!</body></html>"
MAX_AMOUNT: Final = "50.00"
BUDGET: Final = "100.00"
DECLARED: Final = "200.00"
FUNDS: Final = "1000.00"
SPENT: Final = "20.00"
"""Amount of the printed spend; a stand-in may approve it."""

_JSON: Final = {"Content-Type": "application/json"}


class DecideError(Exception):
    """The endpoint cannot decide for the programme. The message is one line."""


class DecisionEndpoint:
    """Answers decision requests and prints them on ``console``. ``behaviour`` and ``secret`` may change while
    it serves; without a ``secret`` signatures are not checked."""

    def __init__(
        self,
        console: Console,
        behaviour: Behaviour,
        *,
        secret: str | None = None,
        approve_up_to_minor: int | None = None,
    ) -> None:
        self.behaviour: Behaviour = behaviour
        self.secret = secret
        self._console = console
        self._approve_up_to_minor = approve_up_to_minor

    async def handle(self, request: Request) -> Answer | None:
        """The answer to one request; ``None`` closes the connection without an answer."""
        if self.secret is not None:
            try:
                verify_signature(request.headers.get(SIGNATURE_HEADER.lower()), request.body, [self.secret])
            except SignatureError as refused:
                self._console.print(Text(f"refused: {refused}", style="red"))
                return Answer(400)
        question = json.loads(request.body)
        body = self._body(question)
        self._print(question, body)
        if self.behaviour == "down":
            return None
        if self.behaviour == "slow":
            await asyncio.sleep(seconds_left(question["deadline_at"], time.time()) + LATE_SECONDS)
        if self.behaviour == "garbage":
            return Answer(200, GARBAGE, {"Content-Type": "text/html"})
        return Answer(200, json.dumps(body).encode(), _JSON)

    def _body(self, question: dict[str, Any]) -> dict[str, Any]:
        """The body of a valid answer."""
        declined = {"authorization_id": question["authorization_id"], "decision": "declined"}
        limit_minor, amount_minor = self._approve_up_to_minor, parse_amount(question["amount"])
        if self.behaviour == "decline" or amount_minor is None:
            return declined
        approved = declined | {"decision": "approved"}
        if limit_minor is None or amount_minor <= limit_minor:
            return approved
        if not question["partial_allowed"] or limit_minor == 0:
            return declined
        return approved | {"approved_amount": format_minor(limit_minor)}

    def _print(self, question: dict[str, Any], body: dict[str, Any]) -> None:
        action = {
            "down": "closes the connection",
            "garbage": "answers garbage",
            "slow": f"answers {body['decision']}, too late",
        }.get(self.behaviour, body["decision"])
        if self.behaviour not in ("down", "garbage") and "approved_amount" in body:
            action += f" up to {body['approved_amount']}"
        verified = "signature not checked" if self.secret is None else "signature verified"
        line = Text(f"{time.strftime('%H:%M:%S')}  ", style="dim")
        line.append(f"{question['amount']} {question['currency']}", style="bold")
        line.append(f" at {question['merchant']['name']} ({question['merchant']['country']})")
        line.append(f", {question['operation']} {question['authorization_id']}", style="dim")
        self._console.print(line)
        self._console.print(
            Text(f"          {question['channel']}, MCC {question['mcc']}; {verified}; {action}", style="dim")
        )


def seconds_left(deadline_at: str, now: float) -> float:
    """Seconds from ``now`` (Unix seconds) to ``deadline_at`` (RFC 3339); 0 when it has passed."""
    return max(0.0, datetime.fromisoformat(deadline_at).timestamp() - now)


@dataclass(frozen=True)
class DecidedProgramme:
    """The programme to decide for. ``before``: its settings without this endpoint."""

    programme_id: str
    secret: str | None
    before: dict[str, Any]
    card_id: str | None = None


def of_programme(client: Client, programme_id: str, secret: str | None) -> DecidedProgramme:
    """A programme of the user."""
    programme = client.programs.get(programme_id)
    before = {"decisioning": programme["decisioning"], "decision_url": programme["decision_url"]}
    return DecidedProgramme(programme_id, secret, before)


def playground(client: Client, file: Path) -> DecidedProgramme:
    """The programme stored in ``file``, or a new one with a policy and a funded card."""
    before = {"decisioning": "platform", "decision_url": None}
    with suppress(OSError, ValueError, KeyError, TypeError, NotFoundError):
        known = json.loads(file.read_bytes())
        client.programs.get(known["programme_id"])
        return DecidedProgramme(known["programme_id"], known["decision_secret"], before, known["card_id"])
    programme = client.programs.create(name="Decided by stanchion decide", currency="EUR")
    card_id = _new_card(client, programme["id"])
    client.programs.set_stip_policy(
        programme["id"],
        mode="approve_within_limits",
        max_amount=MAX_AMOUNT,
        max_total_exposure=money(BUDGET, "EUR"),
    )
    stored = {
        "programme_id": programme["id"],
        "decision_secret": programme["decision_secret"],
        "card_id": card_id,
    }
    write_private(file, json.dumps(stored))
    return DecidedProgramme(programme["id"], programme["decision_secret"], before, card_id)


def _new_card(client: Client, programme_id: str) -> str:
    """A card with funds and a declared balance."""
    product = client.card_products.create(
        programme_id=programme_id,
        name="Playground",
        network="visa",
        currency="EUR",
        form_factor="virtual",
        iin="45600001",
    )
    holder = client.cardholders.create(
        programme_id=programme_id, given_name="Ada", family_name="Byron", email="ada@example.com"
    )
    card = client.cards.create(card_product_id=product["id"], cardholder_id=holder["id"])
    client.cards.load(card["id"], money(FUNDS, "EUR"))
    declare(client, card["id"], DECLARED)
    return card["id"]


def declare(client: Client, card_id: str, amount: str) -> None:
    """Set the declared balance, in euros, that a card may spend in stand-in."""
    body = {"balance": money(amount, "EUR")}
    client.request("PUT", f"/v1/cards/{card_id}/declared-balance", body=body)


def decide(
    var_dir: Path,
    behaviour: Behaviour,
    *,
    programme_id: str | None = None,
    secret: str | None = None,
    approve_up_to: str | None = None,
    port: int = 0,
) -> None:
    """Decide for a programme of the installation in ``var_dir`` until SIGINT or SIGTERM.

    Raises DecideError, LocalHttpsError or StanchionError, each with one line.
    """
    approve_up_to_minor = None if approve_up_to is None else parse_amount(approve_up_to)
    if approve_up_to is not None and approve_up_to_minor is None:
        raise DecideError("--approve-up-to takes an amount like 25.00")
    run_file = var_dir / RUN_FILE
    with Client.of_installation(run_file) as client:
        require_trust(var_dir, json.loads(run_file.read_bytes())["egress_ca_file"])
        console = Console(soft_wrap=True, highlight=False)
        endpoint = DecisionEndpoint(console, behaviour, approve_up_to_minor=approve_up_to_minor)
        asyncio.run(_serve(client, var_dir, endpoint, console, programme_id, secret, port))


async def _serve(
    client: Client,
    var_dir: Path,
    endpoint: DecisionEndpoint,
    console: Console,
    programme_id: str | None,
    secret: str | None,
    port: int,
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with local_receiver(var_dir, endpoint.handle, port) as url:
        if programme_id is None:
            programme = await asyncio.to_thread(playground, client, var_dir / PLAYGROUND_FILE)
        else:
            programme = await asyncio.to_thread(of_programme, client, programme_id, secret)
        endpoint.secret = programme.secret
        here = {"decisioning": "delegated", "decision_url": f"{url}/decide"}
        await asyncio.to_thread(_set_endpoint, client, programme.programme_id, here)
        try:
            card_id = programme.card_id or await asyncio.to_thread(_newest_card, client, programme_id)
            spend = None if card_id is None else spend_to_paste(card_id, SPENT, var_dir)
            _greet(console, url, endpoint, programme, spend)
            _change_by_keyboard(endpoint, console)
            await stop.wait()
        finally:
            # No request may be sent to the port once another program can get it.
            await asyncio.to_thread(_set_endpoint, client, programme.programme_id, programme.before)


def _newest_card(client: Client, programme_id: str | None) -> str | None:
    """The newest active card of the programme, if it has one."""
    found = client.cards.list(programme_id=programme_id, state="active", page_size=1)
    return next((card["id"] for card in found), None)


def _set_endpoint(client: Client, programme_id: str, settings: Any) -> None:
    client.programs.update(programme_id, **settings)


def _greet(
    console: Console, url: str, endpoint: DecisionEndpoint, programme: DecidedProgramme, spend: str | None
) -> None:
    console.print(f"Deciding for programme {programme.programme_id} at {url}: {endpoint.behaviour}.")
    if programme.card_id is not None:
        console.print(
            f"Its card {programme.card_id} is funded. Stand-in limits, EUR: {MAX_AMOUNT} per spend, {BUDGET}"
            f" per outage, {DECLARED} on the card."
        )
    if endpoint.secret is None:
        console.print("Without its secret (--secret), signatures are not checked.")
    if spend is not None:
        console.print(f"Spend in another terminal: {spend}", markup=False)
    console.print("Ctrl-C stops the endpoint; the programme then decides as before.")


def _change_by_keyboard(endpoint: DecisionEndpoint, console: Console) -> None:
    """At a terminal, lines like ``decline`` change the behaviour."""
    if not sys.stdin.isatty():
        return
    console.print(f"Type one of {', '.join(BEHAVIOURS)} and Enter to change the answer.")

    def on_line() -> None:
        line = sys.stdin.readline()
        if not line:
            asyncio.get_running_loop().remove_reader(sys.stdin)
            return
        switch(endpoint, line, console)

    asyncio.get_running_loop().add_reader(sys.stdin, on_line)


def switch(endpoint: DecisionEndpoint, line: str, console: Console) -> None:
    """Set the behaviour that ``line`` names, or begins to name."""
    word = line.strip().lower()
    matches = [behaviour for behaviour in BEHAVIOURS if word and behaviour.startswith(word)]
    if len(matches) == 1:
        endpoint.behaviour = matches[0]
        console.print(f"Answering: {matches[0]}.")
    else:
        console.print(f"Unknown; type one of {', '.join(BEHAVIOURS)}.")
