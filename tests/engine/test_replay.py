"""Random histories through ``execute``: every decision and the whole state replay from the journal.

Each history has several cards, two of which share an account. Time passes, days end, holds expire, and
follow-ups name earlier messages. The books must balance after every command. At the end the journal alone,
decoded from its JSON, is replayed.
"""

from __future__ import annotations

import copy
import random
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.authorization.effects import AuthorizationOpened, Transferred
from engine.authorization.executed import CommandContext, Executed
from engine.cards.account import Account, balance_view
from engine.cards.authorization import Authorization, open_hold, references_of
from engine.cards.card import Card
from engine.commands import (
    Advise,
    AuthorizationCommand,
    Authorize,
    CardCommand,
    ChangeCard,
    Expire,
    Load,
    Present,
    ReadBalance,
    Reverse,
    ReverseTransfer,
    Transfer,
    reference_of_id,
    reference_of_message,
)
from engine.controls import Control, MccDeny, PerDayAmountCap, PerDayCap, PerTxnCap
from engine.decision.decide import Decision, authorize
from engine.decision.inputs import Inputs
from engine.execution.execute import execute
from engine.instant import DAY_MS
from engine.money import format_minor
from engine.programmes.programme import ProgrammeConfig
from tests.support.engine.build import (
    NOW_MS,
    TENANT,
    account,
    an_id,
    card,
    key,
    posted_transfer,
    programme,
    wire,
)

FIRST, SECOND, ALONE, UNFUNDED = (an_id(0xC0 + number) for number in range(4))
SHARED, OWN = an_id(0xAC1), an_id(0xAC2)
ACCOUNT_OF = {FIRST: SHARED, SECOND: SHARED, ALONE: OWN, UNFUNDED: None}
CARDS = tuple(ACCOUNT_OF)
CONTROLS: tuple[tuple[Control, ...], ...] = (
    (),
    (PerDayCap(1),),
    (PerDayAmountCap(4_000), PerDayCap(9)),
    (MccDeny(("7995",)), PerTxnCap(2_000)),
)
ZONES = ("UTC", "Europe/Dublin", "Pacific/Kiritimati", "America/New_York")
_encode = msgspec.json.encode


class Entry(msgspec.Struct):
    """The journal entry of a command, as bytes."""

    command: bytes
    config: bytes
    now_ms: int
    inputs: bytes
    outcome: bytes
    reply: bytes
    events: tuple[Any, ...]


class World:
    """The state of one owner, and its journal."""

    def __init__(self) -> None:
        self.cards: dict[str, Card] = {}
        self.accounts: dict[str, Account] = {
            SHARED: account(id=SHARED, posted_minor=0),
            OWN: account(id=OWN, posted_minor=0),
        }
        for id_, account_id in ACCOUNT_OF.items():
            self.cards[id_] = card(id=id_, account_id=account_id)
        self.named: dict[tuple[str, str], Authorization] = {}
        self.journal: list[Entry] = []
        self.moved: dict[str, int] = dict.fromkeys(self.accounts, 0)
        self.event_ids: set[str] = set()

    def live(self, command: CardCommand, config: ProgrammeConfig, now_ms: int) -> Executed:
        """Execute a command, and add it to the journal if its result is journaled."""
        context = self._context(command, config)
        executed = execute(command, context, now_ms)
        for effect in executed.effects:
            if isinstance(effect, AuthorizationOpened):
                opened = effect.authorization
                self.named |= {(opened.card_id, name): opened for name in references_of(opened)}
            elif isinstance(effect, Transferred):
                assert context.account is not None
                sign = 1 if effect.direction == "credit" else -1
                self.moved[context.account.id] += sign * effect.amount_minor
        if executed.journaled:
            self.journal.append(
                Entry(
                    _encode(command),
                    _encode(config),
                    now_ms,
                    _encode(executed.inputs),
                    _encode(executed.outcome),
                    _encode(executed.reply),
                    executed.events,
                )
            )
        return executed

    def _context(self, command: CardCommand, config: ProgrammeConfig) -> CommandContext:
        card_id = command.card_id  # type: ignore[union-attr]
        account_id = ACCOUNT_OF[card_id]
        references = command.references if isinstance(command, AuthorizationCommand) else ()
        found = (self.named.get((card_id, reference)) for reference in references)
        original = next((each for each in found if each is not None), None)
        return CommandContext(
            self.cards[card_id], self.accounts[account_id] if account_id else None, config, original
        )

    def state(self) -> tuple[Any, ...]:
        """All state on which a command can depend."""
        return self.cards, self.accounts, self.named


# --- histories ---

Step = tuple[str, int, int, int, int]
KINDS = (
    *("spend",) * 6,
    *("refund", "verify", "partial", "cvv2", "gamble", "dollars"),
    *("increment", "reverse", "reverse_partly", "present", "present_part", "advise", "expire", "sweep"),
    *("force_post", "present_refund", "reverse_early"),
    *("load", "load", "unload", "fee", "reverse_transfer"),
    *("controls", "suspend", "activate", "read", "steal", "zone", "suspend_programme"),
)
steps = st.tuples(
    st.sampled_from(KINDS),
    st.integers(0, len(CARDS) - 1),
    st.integers(1, 3_000),
    st.one_of(st.integers(0, 120), st.sampled_from((24 * 60, 7 * 24 * 60, 31 * 24 * 60))),
    st.integers(0, 9),
)


def command_of(step: Step, number: int, world: World) -> CardCommand:
    """The command of a step. A follow-up names an earlier message of the card, or an unknown one."""
    kind, who, amount_minor, _, pick = step
    card_id = CARDS[who]
    about: dict[str, Any] = {"id": an_id(0x100_0000 + number), "command_key": key(number), "card_id": card_id}
    wired: dict[str, Any] = about | {
        "fingerprint": key(number),
        "wire": wire(number, network_txn_id=f"N{number % 50}"),
    }
    merchant: dict[str, Any] = {"mcc": "5411", "merchant_name": "Shop", "merchant_country": "IE"}
    sale: dict[str, Any] = wired | merchant | {"amount_minor": amount_minor, "currency": "EUR"}
    asked: dict[str, Any] = {"channel": "pos", "entry_mode": "chip"}
    earlier = [reference for owner, reference in world.named if owner == card_id]
    reference = earlier[pick * len(earlier) // 10] if earlier else reference_of_message(key(9_999))
    ours: dict[str, Any] = about | {"tenant_id": TENANT, "live": False}
    moved: dict[str, Any] = {
        "account_id": ACCOUNT_OF[card_id] or an_id(9),
        "amount_minor": amount_minor,
        "currency": "EUR",
    }
    posted = posted_transfer(account_id=moved["account_id"], direction="credit" if pick % 2 else "debit")
    made: dict[str, Any] = {
        "spend": lambda: Authorize(**sale, **asked),
        "refund": lambda: Authorize(**sale, **asked, kind="refund"),
        "verify": lambda: Authorize(**sale | {"amount_minor": 0}, **asked),
        "partial": lambda: Authorize(**sale, **asked, partial_allowed=True, partial_cap_minor=pick * 300),
        "cvv2": lambda: Authorize(**sale, **asked, cvv2="match" if pick > 6 else "mismatch"),
        "gamble": lambda: Authorize(**sale | {"mcc": "7995"}, **asked | {"channel": "moto"}),
        "dollars": lambda: Authorize(**sale | {"currency": "USD"}, **asked),
        "increment": lambda: Authorize(**sale, **asked, references=(reference,)),
        "reverse": lambda: Reverse(**wired, references=(reference,)),
        "reverse_partly": lambda: Reverse(**wired, references=(reference,), remaining_minor=amount_minor),
        "reverse_early": lambda: Reverse(**wired, references=(reference_of_message(key(number + 3)),)),
        "present": lambda: Present(**sale, references=(reference,), kind="purchase", arn="1", sequence=1),
        "present_part": lambda: Present(
            **sale, references=(reference,), kind="purchase", arn="1", sequence=1, final=False
        ),
        "present_refund": lambda: Present(
            **sale, references=(reference,), kind="refund", arn="2", sequence=1
        ),
        "force_post": lambda: Present(
            **sale, references=(), kind="refund" if pick > 6 else "purchase", arn=None, sequence=1
        ),
        "advise": lambda: Advise(**sale, **asked, references=(reference,), approved=pick > 2),
        "expire": lambda: Expire(**ours, references=(reference,)),
        "sweep": lambda: Expire(**about),
        "load": lambda: Load(**ours, amount_minor=amount_minor * 3, currency="EUR"),
        "unload": lambda: Transfer(**ours, **moved, direction="debit", kind="unload"),
        "fee": lambda: Transfer(**ours, **moved, direction="debit", kind="fee", allow_negative=True),
        "reverse_transfer": lambda: ReverseTransfer(**ours, transfer=posted, allow_negative=pick > 4),
        "controls": lambda: ChangeCard(**ours, controls=CONTROLS[pick % len(CONTROLS)]),
        "suspend": lambda: ChangeCard(**ours, state="suspended"),
        "activate": lambda: ChangeCard(**ours, state="active"),
        "read": lambda: ReadBalance(**ours),
        "steal": lambda: Load(**ours | {"tenant_id": an_id(9)}, amount_minor=1, currency="EUR"),
    }
    command: CardCommand = made[kind]()
    return command


def live_through(history: list[Step]) -> World:
    """Execute a history, and check the books after every command."""
    world, config, now_ms = World(), programme(), NOW_MS
    for number, step in enumerate(history):
        now_ms += step[3] * 60_000
        if step[0] == "zone":
            config = msgspec.structs.replace(
                config, timezone=ZONES[step[4] % len(ZONES)], version=config.version + 1
            )
            continue
        if step[0] == "suspend_programme":
            status = "active" if config.status == "suspended" else "suspended"
            config = msgspec.structs.replace(config, status=status, version=config.version + 1)
            continue
        before = copy.deepcopy((world.cards, world.accounts))
        command = command_of(step, number, world)
        executed = world.live(command, config, now_ms)
        if not executed.journaled:
            assert (world.cards, world.accounts) == before, "a refusal or a read changes no state"
            assert (executed.events, executed.effects) == ((), ())
        assert_balanced(world, before, now_ms)
        assert_events_are_unique(world, command, executed)
    return world


def assert_balanced(world: World, before: tuple[Any, ...], now_ms: int) -> None:
    """The invariants of accounts, holds and counters."""
    for id_, balance in world.accounts.items():
        holds = balance.holds.values()
        assert balance.held_minor == sum(hold.amount_minor for hold in holds)
        assert balance.posted_minor == world.moved[id_]
        assert all(hold.amount_minor > 0 for hold in holds)
        assert balance.expired_holds(2**62) == tuple(
            sorted(holds, key=lambda hold: (hold.expires_ms, hold.id))
        )
        was = before[1][id_]
        money = (was.posted_minor, was.held_minor, was.holds)
        changed = money != (balance.posted_minor, balance.held_minor, balance.holds)
        # A sale that was reversed before it came is held and released in one version.
        assert changed <= balance.version - was.version <= 1
        open_minor = sum(hold.amount_minor for hold in holds if hold.expires_ms > now_ms)
        shown = balance_view(balance, FIRST, "EUR", now_ms)
        assert shown["held"] == format_minor(open_minor)
        assert shown["available"] == format_minor(balance.posted_minor - open_minor)
    for id_, owner in world.cards.items():
        assert owner.day >= before[0][id_].day
        assert min(owner.day_count, owner.day_amount_minor, owner.cvv2_failures) >= 0
        assert owner.cvv2_failures <= 5
    owned = [hold.authorization_id for each in world.accounts.values() for hold in each.holds.values()]
    assert len(owned) == len(set(owned)), "one hold for each authorization"


def assert_events_are_unique(world: World, command: CardCommand, executed: Executed) -> None:
    """A command has at most one decision event, and event ids are unique."""
    types = [event.type for event in executed.events]
    assert types.count("authorization.decided") <= 1
    if isinstance(command, Authorize):
        assert types[0] == "authorization.decided"
    for event in executed.events:
        assert event.id not in world.event_ids
        world.event_ids.add(event.id)
        msgspec.json.decode(event.data)


def assert_reproducible(world: World) -> None:
    """Replay every stored decision; then replay the journal."""
    for entry in world.journal:
        command: CardCommand = msgspec.json.decode(entry.command, type=CardCommand)
        if isinstance(command, Authorize):
            inputs = msgspec.json.decode(entry.inputs, type=Inputs)
            assert _encode(authorize(command, inputs)) == entry.outcome
            assert _encode(msgspec.json.decode(entry.outcome, type=Decision)) == entry.outcome
    again = World()
    for entry in world.journal:
        again.live(
            msgspec.json.decode(entry.command, type=CardCommand),
            msgspec.json.decode(entry.config, type=ProgrammeConfig),
            entry.now_ms,
        )
    assert again.journal == world.journal
    assert again.state() == world.state()


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=60))
def test_short_random_histories_replay(history: list[Step]) -> None:
    assert_reproducible(live_through(history))


def test_long_random_histories_replay() -> None:
    """Thousands of commands, which reach all response codes and remarks."""
    codes: set[str] = set()
    remarks: set[str | None] = set()
    for seed in range(10):
        dice = random.Random(seed)
        world = live_through([random_step(dice) for _ in range(400)])
        assert_reproducible(world)
        replies = [msgspec.json.decode(entry.reply) for entry in world.journal]
        codes |= {reply["response_code"] for reply in replies if reply["reply"] == "answer"}
        outcomes = [msgspec.json.decode(entry.outcome) for entry in world.journal]
        remarks |= {outcome.get("remark") for outcome in outcomes if outcome and "type" in outcome}
    assert codes >= {"00", "10", "85", "12", "51", "57", "61", "62", "65", "N7"}
    assert remarks == {None, "late", "nothing_held", "unknown_original", "matched"}


def random_step(dice: random.Random) -> Step:
    """A step as in ``steps``, drawn without hypothesis."""
    minutes = dice.choice((0, 0, 1, 7, 30)) if dice.random() < 0.97 else dice.choice((1, 8)) * 24 * 60
    return dice.choice(KINDS), dice.randrange(len(CARDS)), dice.randint(1, 3_000), minutes, dice.randint(0, 9)


def test_increment_renews_a_lapsed_hold_and_a_capture_draws_on_it() -> None:
    """A history that random search rarely finds: sold, lapsed, raised, partly cleared."""
    world = World()
    spend, later = command_of(("load", 0, 3_000, 0, 0), 0, world), NOW_MS + 8 * DAY_MS
    world.live(spend, programme(), NOW_MS)
    world.live(command_of(("spend", 0, 1_000, 0, 0), 1, world), programme(), NOW_MS)
    sold = world.named[FIRST, reference_of_id(an_id(0x100_0001))]
    world.live(command_of(("sweep", 0, 1, 0, 0), 2, world), programme(), later)
    assert open_hold(sold, world.accounts[SHARED]) is None
    world.live(command_of(("increment", 0, 500, 0, 0), 3, world), programme(), later)
    hold = open_hold(sold, world.accounts[SHARED])
    assert hold is not None
    assert hold.amount_minor == 1_500
    world.live(command_of(("present_part", 0, 400, 0, 0), 4, world), programme(), later)
    assert (hold.amount_minor, sold.cleared_minor) == (1_100, 400)
