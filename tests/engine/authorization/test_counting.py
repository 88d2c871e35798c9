"""What velocities count follows from the authorizations, over random histories with increments, partial
approvals, reversals, advices and presentments."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
import pytest

from actors.journal.decoding import PastCommand, decode_past_command
from engine.authorization.counting import Figures, base_of, changes_of, counted_past
from engine.authorization.executed import Executed
from engine.cards.authorization import Authorization
from engine.commands import Advise, AuthorizationCommand, Authorize, CardCommand, Present
from engine.instant import day_label
from engine.programmes.programme import ProgrammeConfig
from engine.rules.evaluate import counted_of
from engine.rules.model import Velocity
from engine.rules.velocity import Counted, History
from tests.engine.test_replay import ACCOUNT_OF, CARDS, Step, World, command_of, random_step
from tests.support.engine.build import NOW_MS, authorize, programme

COUNT, AMOUNT = Velocity("count", "lifetime"), Velocity("amount", "lifetime")
DECLINES = Velocity("declines", "lifetime")
TODAY_COUNT, TODAY_AMOUNT = Velocity("count", "day"), Velocity("amount", "day")
decode_command = msgspec.json.Decoder(CardCommand).decode
ALL = (COUNT, AMOUNT, DECLINES, TODAY_COUNT, TODAY_AMOUNT)


class Followed(World):
    """A world whose cards have histories."""

    def __init__(self) -> None:
        super().__init__()
        self.histories = {card_id: History() for card_id in CARDS}
        for history in self.histories.values():
            history.load(ALL, "UTC", [])

    def live(self, command: CardCommand, config: ProgrammeConfig, now_ms: int) -> Executed:
        original = self._context(command, config).original
        executed = super().live(command, config, now_ms)
        if isinstance(command, AuthorizationCommand):
            changes = changes_of(command, executed.effects, original, now_ms)
            self.histories[command.card_id].apply(changes)
        return executed

    def values(self, card_id: str, now_ms: int) -> list[int]:
        history, present = self.histories[card_id], counted_of(authorize(1), now_ms)
        return [history.observe(each, "UTC", now_ms, present).value for each in ALL]

    def authorizations(self, card_id: str) -> list[Authorization]:
        found = {id(each): each for (owner, _), each in self.named.items() if owner == card_id}
        return [each for each in found.values() if each.kind in ("purchase", "force_post")]


def lived(seed: int, without: tuple[str, ...] = ()) -> Iterator[tuple[Followed, int]]:
    """A random history, after each of its commands."""
    dice, world, now_ms = random.Random(seed), Followed(), NOW_MS
    skipped = ("zone", "suspend_programme", *without)
    for number in range(250):
        step: Step = random_step(dice)
        now_ms += step[3] * 60_000
        if step[0] not in skipped:
            world.live(command_of(step, number, world), programme(), now_ms)
            yield world, now_ms


@pytest.mark.parametrize("seed", range(6))
def test_velocities_equal_a_recount_of_all_authorizations(seed: int) -> None:
    for world, now_ms in lived(seed):
        for card_id in CARDS:
            count, amount_minor, declines, _, _ = world.values(card_id, now_ms)
            counted = world.authorizations(card_id)
            net = {each.id: each.approved_minor - each.reversed_minor for each in counted}
            approved = [each for each in counted if each.decline_reason is None]
            assert declines == len(counted) - len(approved)
            assert amount_minor == sum(net[each.id] for each in approved)
            sales = [each for each in approved if each.kind == "purchase"]
            assert count == sum(net[each.id] > 0 or each.cleared_minor > 0 for each in sales)


@pytest.mark.parametrize("seed", range(6))
def test_velocities_of_a_day_count_what_the_caps_count(seed: int) -> None:
    """Without advices, which the caps count on the day of the advice. A sale that an advice approves for an
    unfunded card is held by no account, and no cap counts it."""
    for world, now_ms in lived(seed, without=("advise",)):
        today = day_label(now_ms, "UTC")
        for card_id, card in world.cards.items():
            *_, count, amount_minor = world.values(card_id, now_ms)
            caps = (card.day_count, card.day_amount_minor) if card.day == today else (0, 0)
            assert (count, amount_minor) == caps, ACCOUNT_OF[card_id]


@pytest.mark.parametrize("seed", range(6))
def test_a_stored_past_equals_the_one_that_was_followed(seed: int) -> None:
    """Built anew from the authorizations, as after a takeover."""
    *_, (world, now_ms) = lived(seed)
    messages: dict[str, tuple[CardCommand, int]] = {}
    for entry in world.journal:
        command = decode_command(entry.command)
        messages[f"k:{command.command_key.hex()}"] = (command, entry.now_ms)
    for card_id in CARDS:
        history = History()
        past = [counted for each in world.authorizations(card_id) for counted in stored(each, messages)]
        history.load(ALL, "UTC", past)
        present = counted_of(authorize(1), now_ms)
        again = [history.observe(each, "UTC", now_ms, present).value for each in ALL]
        assert again == world.values(card_id, now_ms)


def stored(each: Authorization, messages: dict[str, tuple[CardCommand, int]]) -> list[Counted]:
    """The past of one authorization as ``load_past`` returns it."""

    def message(name: str) -> tuple[int, PastCommand]:
        command, at_ms = messages[name]
        assert isinstance(command, Authorize | Advise | Present)
        return at_ms, decode_past_command(msgspec.json.encode(command).decode())

    return counted_past(
        (each.id, *message(f"k:{each.command_key.hex()}")),
        [(name, *message(name), part.counted_minor) for name, part in each.increments.items()],
        Figures(
            each.kind,
            each.decline_reason is not None,
            each.approved_minor,
            each.cleared_minor,
            each.reversed_minor,
        ),
    )


def test_a_command_without_an_authorization_changes_nothing() -> None:
    assert changes_of(authorize(1), (), None, NOW_MS) == ()


def test_a_declined_authorization_counts_as_declined_only() -> None:
    for world, _ in lived(1):
        for each in (each for each in world.authorizations(CARDS[0]) if each.decline_reason):
            change = base_of(each)
            assert (change.amount_minor, change.count, change.declined) == (0, 0, True)
