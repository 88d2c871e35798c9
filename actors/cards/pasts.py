"""The past of active cards and accounts, for the velocities of authorization rules.

A past is read before the first decision that needs it, and follows each later command. The stored past lacks
commands that are not durable, so a read begins only when all commands of its cards are durable; changes from
then on are applied on top of its result. Cards whose rules have no velocities have no past in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from actors.cards.card_actor import ActiveAccount, CardActor
from actors.cards.reading import Need, Wanted
from actors.journal.contract import PastOf
from engine.authorization.counting import changes_of
from engine.authorization.executed import Executed
from engine.cards.authorization import Authorization
from engine.commands import CardCommand
from engine.programmes.programme import Programme
from engine.rules.evaluate import LivePast, RuleSet
from engine.rules.model import Velocity
from engine.rules.velocity import History
from engine.rules.windows import earliest_ms

_CLOCK_SLACK_MS = 60_000
"""More than the clocks of two owners of a card differ."""
_PREFIX = "past|"


class LoadingPast(msgspec.Struct, frozen=True):
    """The read of one card's or account's past, for ``velocities`` in the time zone ``zone``."""

    need_id: str
    wanted: PastOf
    history: History
    velocities: tuple[Velocity, ...]
    zone: str


class Pasts:
    """The pasts of one host's active cards. The arguments are those of ``Activation``."""

    def __init__(
        self,
        cards: Mapping[str, CardActor],
        accounts: Mapping[str, ActiveAccount],
        snapshots: Mapping[str, Programme],
        now_ms: Callable[[], int],
    ) -> None:
        self._cards = cards
        self._accounts = accounts
        self._snapshots = snapshots
        self._now_ms = now_ms

    def need(self, actor: CardActor) -> Need | None:
        """The need to read the past before the next decision on ``actor``; ``None`` if it is in memory, or if
        no rule uses it."""
        programme = self._snapshots.get(actor.card.programme_id)
        if programme is None:
            return None
        rules = actor.rules_of(programme)
        if not rules.velocities:
            return None
        zone = programme.config.timezone
        account = self._account(actor)
        of_card = rules.card_velocities if account is not None else rules.velocities
        lacks = _lacks(actor.history, of_card, zone) or (
            account is not None and _lacks(account.history, rules.account_velocities, zone)
        )
        return Need("past", _PREFIX + actor.card.id) if lacks else None

    def past_of(self, actor: CardActor, rules: RuleSet) -> LivePast | None:
        """The past with which ``rules`` decide; ``None`` if they have no velocities."""
        if not rules.velocities:
            return None
        account = self._account(actor)
        card = actor.history or History()
        return LivePast(card, card if account is None else account.history or History())

    def follow(
        self,
        actor: CardActor,
        command: CardCommand,
        executed: Executed,
        original: Authorization | None,
        now_ms: int,
    ) -> None:
        """Apply the changes of ``command``, which ``actor`` has executed."""
        histories = tuple(self._followers(actor))
        if histories:
            changes = changes_of(command, executed.effects, original, now_ms)
            for history in histories:
                history.apply(changes)

    def begin(self, wanted: Wanted, postponed: Wanted | None = None) -> list[LoadingPast]:
        """Begin the reads of the pasts in ``wanted``. Those that must wait for a commit move to
        ``postponed``."""
        loading: list[LoadingPast] = []
        for id_ in list(wanted.pasts):
            actor = self._cards.get(id_.removeprefix(_PREFIX))
            if actor is None:
                # The card was dropped: its commands begin again by reading it.
                continue
            if not all(each.undurable == 0 for each in self._related(actor)):
                del wanted.pasts[id_]
                if postponed is not None:
                    postponed.pasts[id_] = None
                continue
            loading += self._loading(id_, actor)
        for each in loading:
            each.history.begin_loading()
        return loading

    def _loading(self, need_id: str, actor: CardActor) -> list[LoadingPast]:
        programme = self._snapshots[actor.card.programme_id]
        zone, rules = programme.config.timezone, actor.rules_of(programme)
        account = self._account(actor)
        loading = []
        of_card = rules.card_velocities if account is not None else rules.velocities
        if of_card:
            actor.history = actor.history or History()
            loading.append(self._read(need_id, actor.card.id, actor.history, of_card, zone))
        if account is not None and rules.account_velocities:
            account.history = account.history or History()
            # The cards of one account may have rules of their own.
            of_account = dict.fromkeys(
                velocity
                for each in self._sharing(actor)
                for velocity in each.rules_of(programme).account_velocities
            )
            loading.append(
                self._read(need_id, account.account.id, account.history, tuple(of_account), zone, "account")
            )
        return loading

    def _read(
        self,
        need_id: str,
        subject: str,
        history: History,
        velocities: tuple[Velocity, ...],
        zone: str,
        kind: str = "card",
    ) -> LoadingPast:
        now_ms = self._now_ms()
        since_ms = min(earliest_ms(each.window, now_ms) for each in velocities)
        wanted = PastOf(
            subject, "account" if kind == "account" else "card", max(0, since_ms - _CLOCK_SLACK_MS)
        )
        return LoadingPast(need_id, wanted, history, velocities, zone)

    def _account(self, actor: CardActor) -> ActiveAccount | None:
        return None if actor.account is None else self._accounts.get(actor.account.id)

    def _sharing(self, actor: CardActor) -> Iterable[CardActor]:
        """The active cards of the account of ``actor``."""
        account = self._account(actor)
        if account is None or account.users == 1:
            return (actor,)
        return [each for each in self._cards.values() if each.account is actor.account]

    def _related(self, actor: CardActor) -> Iterator[CardActor]:
        """The active cards whose commands are in the past of ``actor`` or of its account."""
        yield from self._sharing(actor)
        replaced, seen = actor.card.replaces, {actor.card.id}
        while replaced is not None and replaced not in seen:
            seen.add(replaced)
            earlier = self._cards.get(replaced)
            replaced = None if earlier is None else earlier.card.replaces
            if earlier is not None:
                yield earlier

    def _followers(self, actor: CardActor) -> Iterator[History]:
        """The histories to which the commands of ``actor`` belong: its own, its account's, and those of the
        cards that have replaced it."""
        account = self._account(actor)
        if account is not None and account.history is not None:
            yield account.history
        while actor.card.replaced_by is not None:
            if actor.history is not None:
                yield actor.history
            later = self._cards.get(actor.card.replaced_by)
            if later is None:
                return
            actor = later
        if actor.history is not None:
            yield actor.history


def wanted_pasts(loading: Iterable[LoadingPast]) -> dict[str, list[PastOf]]:
    """The cards and accounts to read, by need."""
    wanted: dict[str, list[PastOf]] = {}
    for each in loading:
        wanted.setdefault(each.need_id, []).append(each.wanted)
    return wanted


def _lacks(history: History | None, velocities: tuple[Velocity, ...], zone: str) -> bool:
    return bool(velocities) and (history is None or history.lacks(velocities, zone))
