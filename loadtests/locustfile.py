"""Locust's side of a load test: users over REST and over ISO 8583, load shapes, and a verdict.

`make load` (``loadtests.load``) runs it in an environment of its own: gevent patches the standard library,
which breaks Ray.
"""

from __future__ import annotations

import itertools
import random
import re
import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx2
from locust import LoadTestShape, User, constant_throughput, events, task
from locust.env import Environment

from loadtests.generators.traffic import Cards, Sales, amount_minor
from loadtests.users.conversation import Authorized, Conversation, WireError
from loadtests.users.plan import LoadPlan, read_plan
from loadtests.users.shapes import SHAPES, users_at
from loadtests.users.verdict import RunFigures, Thresholds, breaches
from stanchion import Client, RetryPolicy, StanchionError, money

ACQUIRER_FIRST: Final = 600_000
SPAWN_PER_SECOND: Final = 50
_ID: Final = re.compile(r"/[0-9a-f]{8}-[0-9a-f-]{27}")

_numbers = itertools.count()


@events.init_command_line_parser.add_listener
def add_options(parser: ArgumentParser) -> None:
    """Options beside Locust's own."""
    parser.add_argument("--plan", type=Path, required=True, help="the installation and its cards")
    parser.add_argument("--shape", choices=SHAPES, default="steady", help="how the number of users moves")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the run")
    parser.add_argument("--most-users", type=int, default=40, help="users at the height of the shape")
    parser.add_argument("--per-user", type=float, default=5.0, help="steps a second of each user")
    parser.add_argument("--draw", choices=("uniform", "zipf"), default="uniform", help="which cards")
    parser.add_argument("--only", choices=("rest", "wire"), default=None, help="one kind of users alone")
    parser.add_argument("--failures", type=float, default=0.0, help="share of failures that is still good")
    parser.add_argument("--p95-ms", type=float, default=Thresholds().p95_ms, help="still good")
    parser.add_argument("--p99-ms", type=float, default=Thresholds().p99_ms, help="still good")


@events.init.add_listener
def prepare(environment: Environment, **_more: Any) -> None:
    """Load the plan and create the signed-in client that all users share."""
    environment.plan = read_plan(environment.parsed_options.plan)
    environment.api = _client(environment)


@events.quitting.add_listener
def judge(environment: Environment, **_more: Any) -> None:
    """Set exit status 1 and print the reasons if a threshold was missed."""
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
    environment.api.close()


class Shape(LoadTestShape):
    """The shape that the options name."""

    def tick(self) -> tuple[int, float, list[type[User]]] | None:
        """The number of users, their spawn rate, and their kinds."""
        options = self.runner.environment.parsed_options
        users = users_at(options.shape, self.get_run_time(), options.seconds, options.most_users)
        if users is None:
            return None
        kinds = [kind for kind in (RestUser, WireUser) if options.only in (None, kind.kind)]
        return users, SPAWN_PER_SECOND, kinds


class CardUser(User):
    """A user who spends on cards and follows up on earlier sales (``loadtests.generators.traffic``)."""

    abstract = True

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.number = next(_numbers)
        self.chance = random.Random(self.number)
        self.plan: LoadPlan = environment.plan
        self.draw = Cards(len(self.plan.cards), environment.parsed_options.draw, self.chance)
        self.sales: Sales[Any] = Sales(self.chance)

    def wait_time(self) -> float:
        """A constant pace, independent of response times."""
        pace: Callable[[User], float] = constant_throughput(self.environment.parsed_options.per_user)
        return pace(self)


class RestUser(CardUser):
    """Simulated spends over the REST API. Timings end with the HTTP response; the decision comes later."""

    kind = "rest"

    @task
    def step(self) -> None:
        """The next step."""
        step = self.sales.next_step()
        simulations = self.environment.api.simulations
        try:
            if step in ("spend", "refund"):
                spend = simulations.spend(**self._spend("refund" if step == "refund" else "purchase"))
                if step == "spend":
                    self.sales.add(spend["simulation_id"])
                return
            sale = self.sales.take()
            if simulations.get(sale)["state"] != "decided":
                self.sales.add(sale)
            elif step == "increment":
                simulations.increment(sale, money("1.00", "EUR"))
                self.sales.add(sale)
            elif step == "reverse":
                simulations.reverse(sale)
            else:
                simulations.clear(sale)
        except StanchionError:
            pass  # the HTTP client's event hook has reported it

    def _spend(self, kind: str) -> Any:
        minor = amount_minor(self.chance)
        return {
            "card_id": self.plan.cards[self.draw.draw()].card_id,
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
        acquirer = str(ACQUIRER_FIRST + self.number)
        self.wire = Conversation(self.plan.iso8583_host, self.plan.iso8583_port, acquirer)

    def on_stop(self) -> None:
        self.wire.close()

    @task
    def step(self) -> None:
        """The next step."""
        step = self.sales.next_step()
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


def _client(environment: Environment) -> Client:
    """One API client for all users, so that only one token is requested."""
    plan: LoadPlan = environment.plan

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
