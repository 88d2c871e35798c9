"""Locust's side of a load test: users over REST and over ISO 8583, and a verdict.

Run it as any locustfile, with Locust's web page or headless, against an installation anywhere::

    locust -f loadtests/locustfile.py --host https://api.example.com --client-id ID --client-secret SECRET

It issues its own test cards. REST users follow each spend to its decision. Users over ISO 8583 take part
where the edge is reachable and the client has the scope ``cards:reveal``, which gives it the cards' numbers.

`make load` (``loadtests.load``) runs it with load shapes (``loadtests.shaped``) against an installation of
its own, whose cards are in a plan. Locust needs an environment of its own: gevent patches the standard
library, which breaks Ray.
"""

from __future__ import annotations

import itertools
import logging
import random
import re
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import gevent
import httpx2
import msgspec
from locust import User, constant_throughput, events, task
from locust.env import Environment
from locust.exception import StopUser
from locust.runners import MasterRunner, WorkerRunner

# Locust does not put the checkout on the module path.
ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "api/client")]

from loadtests.generators.traffic import Cards, Sales, Step, amount_minor
from loadtests.users.conversation import Authorized, Conversation, WireError
from loadtests.users.issuing import IssuingError, edge_of, is_reachable, issue_cards, reveal_card
from loadtests.users.plan import LoadPlan, read_plan
from loadtests.users.verdict import RunFigures, Thresholds, breaches
from stanchion import Client, NotDecidedError, RetryPolicy, StanchionError, money

ACQUIRER_FIRST: Final = 600_000
DECISION_SECONDS_MAX: Final = 20.0
NO_PLAN: Final = LoadPlan(base_url="", client_id="", client_secret="")
"""The plan of a run whose cards could not be issued."""
_ID: Final = re.compile(r"/[0-9a-f]{8}-[0-9a-f-]{27}")

_numbers = itertools.count()

# The HTTP client logs a line for each request, and Locust shows them.
logging.getLogger("httpx2").setLevel(logging.WARNING)
# Imports take seconds in which gevent's clock stands still. Locust's limit of the run would count them.
gevent.get_hub().loop.update_now()


@events.init_command_line_parser.add_listener
def add_options(parser: ArgumentParser) -> None:
    """Options beside Locust's own."""
    # Locust's page shows these values as JSON, so they have plain types.
    given: Any = parser
    given.add_argument("--client-id", default="", help="an API client in test mode, role admin")
    given.add_argument("--client-secret", default="", is_secret=True, help="its secret")
    given.add_argument("--cards", type=int, default=100, help="test cards to issue for REST users")
    given.add_argument("--wire-cards", type=int, default=20, help="of these, cards for ISO 8583")
    given.add_argument("--edge", default=":8583", help="address of ISO 8583, HOST:PORT; empty = none")
    given.add_argument("--plan", default="", include_in_web_ui=False, help="file with cards issued before")
    parser.add_argument("--per-user", type=float, default=5.0, help="steps a second of each user")
    parser.add_argument("--draw", choices=("uniform", "zipf"), default="uniform", help="which cards")
    parser.add_argument("--only", choices=("", "rest", "wire"), default="", help="one kind of users alone")
    parser.add_argument("--failures", type=float, default=0.0, help="share of failures that is still good")
    parser.add_argument("--p95-ms", type=float, default=Thresholds().p95_ms, help="still good")
    parser.add_argument("--p99-ms", type=float, default=Thresholds().p99_ms, help="still good")


@events.test_start.add_listener
def prepare(environment: Environment, **_more: Any) -> None:
    """Issue the cards, or read the plan, and create the signed-in client that all users share."""
    environment.plan = environment.api = None
    try:
        environment.plan, environment.api = _prepared(environment)
    except (StanchionError, IssuingError, httpx2.HTTPError, OSError) as failure:
        print(f"load: {failure}", flush=True)
        environment.process_exit_code = 1
        # Locust is still starting the run when it calls this.
        gevent.spawn_later(1.0, environment.runner.stop if environment.web_ui else environment.runner.quit)
        return
    only = environment.parsed_options.only or ("" if environment.plan.iso8583_host else "rest")
    environment.user_classes = [kind for kind in environment.user_classes if only in ("", kind.kind)]


def _prepared(environment: Environment) -> tuple[LoadPlan, Client]:
    """The installation with its cards, and a client of it."""
    options = environment.parsed_options
    if options.plan:
        plan = read_plan(Path(options.plan))
        return plan, _client(environment, plan)
    if not (environment.host and options.client_id and options.client_secret):
        raise IssuingError("give --host, --client-id and --client-secret")
    plan = LoadPlan(
        base_url=environment.host.rstrip("/"),
        client_id=options.client_id,
        client_secret=options.client_secret,
    )
    with Client(plan.base_url, plan.client_id, plan.client_secret) as client:
        # The master of several processes only needs to know whether there are users over ISO 8583.
        is_master = isinstance(environment.runner, MasterRunner)
        plan = _with_cards(client, plan, 1 if is_master else options.cards, options)
    return plan, _client(environment, plan)


def _with_cards(client: Client, plan: LoadPlan, count: int, options: Any) -> LoadPlan:
    """``plan`` with ``count`` new cards, and with the edge and cards for it where both can be had."""
    plan = msgspec.structs.replace(plan, card_ids=issue_cards(client, count))
    if not options.edge:
        return plan
    host, port = edge_of(options.edge, plan.base_url)
    if not is_reachable(host, port):
        print(f"load: {host}:{port} is not reachable, so all users speak REST", flush=True)
        return plan
    cards = []
    with httpx2.Client(timeout=30.0) as http:
        for card_id in plan.card_ids[: options.wire_cards]:
            card = reveal_card(client, http, card_id)
            if card is None:
                print("load: the client lacks cards:reveal, so all users speak REST", flush=True)
                return plan
            cards.append(card)
    return msgspec.structs.replace(plan, iso8583_host=host, iso8583_port=port, cards=cards)


@events.quitting.add_listener
def judge(environment: Environment, **_more: Any) -> None:
    """Without the web page, set exit status 1 and print the reasons if a threshold was missed."""
    if getattr(environment, "api", None) is not None:
        environment.api.close()
    if environment.web_ui is not None or isinstance(environment.runner, WorkerRunner):
        return
    options, total = environment.parsed_options, environment.stats.total
    measured = RunFigures(
        requests=total.num_requests,
        failures=total.num_failures,
        p95_ms=total.get_response_time_percentile(0.95) or 0.0,
        p99_ms=total.get_response_time_percentile(0.99) or 0.0,
    )
    thresholds = Thresholds(failures=options.failures, p95_ms=options.p95_ms, p99_ms=options.p99_ms)
    found = breaches(measured, thresholds)
    environment.process_exit_code = 1 if found else 0
    for breach in found:
        print(f"load: {breach}")


class CardUser(User):
    """A user who spends on cards and follows up on earlier sales (``loadtests.generators.traffic``)."""

    abstract = True
    kind: str
    """``rest`` or ``wire``."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.number = next(_numbers)
        self.chance = random.Random(self.number)
        self.sales: Sales[Any] = Sales(self.chance)
        self.plan: LoadPlan = environment.plan or NO_PLAN
        self.count = len(self.plan.cards if self.kind == "wire" else self.plan.card_ids)
        """Number of cards that this user can use."""
        self.draw = Cards(self.count, environment.parsed_options.draw, self.chance)

    def wait_time(self) -> float:
        """A constant pace, independent of response times."""
        pace: Callable[[User], float] = constant_throughput(self.environment.parsed_options.per_user)
        return pace(self)

    def next_step(self) -> Step:
        """What this user does next; the user ends if there are no cards for it."""
        if not self.count:
            raise StopUser
        return self.sales.next_step()


class RestUser(CardUser):
    """Simulated spends over the REST API, each followed to its decision. Requests are timed singly; the row
    ``decision`` counts from the request of a spend until its decision was read."""

    kind = "rest"

    @task
    def act(self) -> None:
        """A request, and for a spend those that follow it to its decision."""
        step = self.next_step()
        simulations = self.environment.api.simulations
        try:
            if step in ("spend", "refund"):
                self._spend_to_decision("refund" if step == "refund" else "purchase")
                return
            sale = self.sales.take()
            if step == "increment":
                simulations.increment(sale, money("1.00", "EUR"))
                self.sales.add(sale)
            elif step == "reverse":
                simulations.reverse(sale)
            else:
                simulations.clear(sale)
        except StanchionError:
            pass  # the HTTP client's event hook has reported it

    def _spend_to_decision(self, kind: str) -> None:
        """Send a spend and poll until it is decided; an approved purchase can have follow-ups."""
        simulations = self.environment.api.simulations
        began = time.perf_counter()
        accepted = simulations.spend(**self._spend(kind))
        failure: Exception | None = None
        try:
            decided = simulations.wait(accepted["simulation_id"], seconds=DECISION_SECONDS_MAX)
            if decided["state"] != "decided":
                failure = StanchionError(f"the spend has {decided['state']}")
            elif decided["decision"] == "approved" and kind == "purchase":
                self.sales.add(accepted["simulation_id"])
        except NotDecidedError as late:
            failure = late
        _report(self.environment, "REST", "decision", began, failure)

    def _spend(self, kind: str) -> Any:
        minor = amount_minor(self.chance)
        return {
            "card_id": self.plan.card_ids[self.draw.draw()],
            "amount": money(f"{minor // 100}.{minor % 100:02d}", "EUR"),
            "mcc": "5411",
            "merchant_name": "Corner Grocer",
            "channel": "pos",
            "kind": kind,
        }


class WireUser(CardUser):
    """An acquirer with a connection of its own. Timings end with the answer, which is the decision."""

    kind = "wire"

    def on_start(self) -> None:
        """Become an acquirer of its own; the first message connects."""
        acquirer = str(ACQUIRER_FIRST + self.number)
        self.wire = Conversation(self.plan.iso8583_host, self.plan.iso8583_port, acquirer)

    def on_stop(self) -> None:
        """Close the connection."""
        self.wire.close()

    @task
    def act(self) -> None:
        """A message and its answer."""
        step = self.next_step()
        if step in ("spend", "refund"):
            number = self.draw.draw()
            sold = self._timed(
                step, self.wire.spend, number, self.plan.cards[number], refund=step == "refund"
            )
        else:
            sale: Authorized = self.sales.take()
            ask = getattr(self.wire, step)
            sold = self._timed(step, ask, sale, self.plan.cards[sale.card], amounts=step == "increment")
        if sold is not None and step in ("spend", "increment"):
            self.sales.add(sold)

    def _timed(
        self, step: str, ask: Callable[..., Any], *arguments: Any, amounts: bool = True, **options: Any
    ) -> Any:
        """Call ``ask`` and report it to Locust; returns its result, or ``None`` when it failed."""
        given = (*arguments, amount_minor(self.chance)) if amounts else arguments
        began = time.perf_counter()
        failure: WireError | None = None
        try:
            return ask(*given, **options)
        except WireError as refused:
            failure = refused
        finally:
            _report(self.environment, "WIRE", step, began, failure)
        return None


def _client(environment: Environment, plan: LoadPlan) -> Client:
    """One API client for all users, so that only one token is requested."""

    def sent(request: httpx2.Request) -> None:
        request.extensions["began"] = time.perf_counter()

    def answered(response: httpx2.Response) -> None:
        name = f"{response.request.method} {_ID.sub('/{id}', response.request.url.path)}"
        failure = StanchionError(str(response.status_code)) if response.status_code >= 400 else None
        _report(environment, "REST", name, response.request.extensions["began"], failure)

    http = httpx2.Client(
        base_url=plan.base_url,
        timeout=30.0,
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
        event_hooks={"request": [sent], "response": [answered]},
    )
    # A retry would hide failures.
    return Client(plan.base_url, plan.client_id, plan.client_secret, http=http, retry=RetryPolicy(attempts=1))


def _report(environment: Environment, kind: str, name: str, began: float, failure: Exception | None) -> None:
    environment.events.request.fire(
        request_type=kind,
        name=name,
        response_time=(time.perf_counter() - began) * 1000,
        response_length=0,
        exception=failure,
        context={},
    )
