"""A deterministic simulation of an installation under faults (G19): the same seed gives the same run.

Two hosts share a store and a few cards. Calls to the journal are slow, fail before or after their effect, or
take effect long after their timeout. Hosts are killed, and lose shards that they still believe to own.
Clients retry under the same command key, as routers do, and record their replies. Some cards are replaced
while they are used. In every third installation
the programme is delegated to an endpoint with outages. In every second one its authorization rules change.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Any, Literal

import msgspec

from actors.journal.contract import JournalError, RejectedError, Rows, UnknownOutcomeError
from actors.journal.memory import MemoryJournal, Point
from actors.journal.memory_store import MemoryStore
from actors.shards.exposure import ExposureClient
from actors.shards.host import ShardHost
from actors.submission import Submission
from actors.vault import Vault
from engine.commands import (
    Authorize,
    CardCommand,
    ChangeProgramme,
    Command,
    CreateProgramme,
    CreateProgrammeRule,
    Present,
    ReadBalance,
    Reverse,
    ReverseTransfer,
    SetCardholderStatus,
    SetStandInPolicy,
    Transfer,
    reference_of_message,
    target_of,
)
from engine.decision.delegation import EndpointResult, Question
from engine.ids import Derived, derive, key_of, shard_of
from engine.programmes.programme import Programme
from engine.programmes.stand_in import Grant, StandInRequest, Trigger
from engine.replies import Done, IdempotencyClaim, NotExecuted, Reply
from engine.rules.model import RuleChange
from engine.transfer import Direction
from tests.support.actors.shards.virtual_time import VirtualClock
from tests.support.engine.build import (
    an_id,
    authorize,
    change_card,
    change_programme,
    create_card,
    create_programme,
    declare_balance,
    key,
    load,
    posted_transfer,
    read_balance,
    replace_card,
    reverse_transfer,
    set_policy,
    transfer,
    wire,
)
from tests.support.engine.rules import change_rule, create_rule, velocity

SHARDS = (0x11, 0x22, 0x33)
ADMIN = create_programme(1, id=an_id(0x60_0001, 0x11))
CARDS = [create_card(number, SHARDS[number % len(SHARDS)], programme_id=ADMIN.id) for number in range(1, 6)]
VAULT = Vault((bytes(32),))
CERTAIN = ("deadline", "overloaded", "not_owner", "key_reused")
PATIENCE_SECONDS = 1.0


def target_rule(command: Command) -> str:
    """The id of the rule that ``command`` creates."""
    assert isinstance(command, CreateProgrammeRule)
    return command.id


class ClientRecord(msgspec.Struct):
    """One command as its client knows it."""

    command: Command
    claim: IdempotencyClaim | None
    began: float
    ended: float | None = None
    reply: Reply | None = None
    sure: bool = True
    """Whether every attempt got a reply that says whether it was executed."""


class FaultRates(msgspec.Struct, frozen=True):
    """Probabilities of faults for each call to the journal."""

    slow: float
    lost: float
    late: float
    refused: float
    host_fault_seconds: float
    """Mean time between faults of hosts."""


class SimulatedProgrammes:
    """One host's calls to the programme's endpoint and owner."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self.exposure = ExposureClient(installation.route, installation.fresh_id)

    async def ask(self, programme: Programme, question: Question, timeout_ms: int) -> EndpointResult:
        dice = self._installation.dice
        delay_ms = dice.expovariate(1 / 40)
        await asyncio.sleep(min(delay_ms, timeout_ms) / 1000)
        if delay_ms > timeout_ms:
            return EndpointResult(trigger="timeout")
        if not self._installation.endpoint_up:
            trigger: Trigger = dice.choice(("connection_error", "invalid_response"))
            return EndpointResult(trigger=trigger)
        decision: Literal["approved", "declined"] = dice.choice(("approved", "approved", "declined"))
        return EndpointResult(decision, dice.choice((None, None, question.amount_minor // 2 or None)))

    async def grant(self, programme_id: str, request: StandInRequest) -> Grant | None:
        return await self.exposure.grant(programme_id, request)

    async def preview(self, programme_id: str, request: StandInRequest) -> Grant | None:
        return await self.exposure.preview(programme_id, request)

    def end_outage(self, programme: Programme) -> None:
        self.exposure.end_outage(programme)


class SimulatedHost:
    """One incarnation of a host."""

    def __init__(self, name: str, installation: Installation) -> None:
        self.name = name
        self.alive = True
        self.dead = asyncio.Event()
        self._installation = installation
        self.journal = MemoryJournal(installation.store, name, self._fault)
        self.programmes = SimulatedProgrammes(installation)
        self.host = ShardHost(
            self.journal,
            VAULT,
            VirtualClock(),
            installation.publish,
            self.die,
            self.programmes,
            active_cards_max=3,
        )

    async def start(self) -> None:
        self._installation.store.register(self.name)
        self.host.start()

    def die(self) -> None:
        """Kill the host, or fence it: no reply leaves it any more."""
        if self.alive:
            self.alive = False
            self.dead.set()
            self._installation.spawn(self._stop_tasks())

    async def _stop_tasks(self) -> None:
        await self.programmes.exposure.stop()
        await self.host.consultations.stop()
        await self.host.committer.stop()
        await self.host.activation.stop()
        for announcement in tuple(self.host.announcements.tasks):
            announcement.cancel()

    async def _fault(self, point: Point, method: str, rows: Rows | None) -> None:
        dice, rates = self._installation.dice, self._installation.rates
        if dice.random() < rates.slow:
            await asyncio.sleep(dice.expovariate(20))
        else:
            await asyncio.sleep(0.0005)
        chance = dice.random()
        if point == "before" and rows is not None and chance < rates.late:
            self._installation.spawn(self._commit_late(rows))
            raise UnknownOutcomeError(method)
        if point != "during" and chance < rates.late + rates.lost:
            raise UnknownOutcomeError(method)
        if point == "during" and chance < rates.refused:
            raise RejectedError(method)

    async def _commit_late(self, rows: Rows) -> None:
        """The server executes a commit after its client's timeout."""
        installation = self._installation
        await asyncio.sleep(installation.dice.expovariate(8))
        with suppress(JournalError):
            async with installation.store.committing(self.name):
                installation.store.check_fence(self.name, rows)
                await asyncio.sleep(installation.dice.expovariate(50))
                installation.store.apply(rows)


class Installation:
    """The simulation of one seed. ``records`` are those of its clients."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.rates = FaultRates(
            slow=self.dice.choice((0.05, 0.3)),
            lost=self.dice.choice((0, 0.02, 0.1)),
            late=self.dice.choice((0, 0.15)),
            refused=self.dice.choice((0, 0.02)),
            host_fault_seconds=self.dice.choice((0.2, 1.0, 9.0)),
        )
        self.delegated = self.dice.random() < 1 / 3
        self.governed = seed % 2 == 1
        """Whether the programme's authorization rules change."""
        self.endpoint_up = True
        self.store = MemoryStore(VirtualClock().now_ms)
        self.hosts: dict[str, SimulatedHost] = {}
        self.owners: dict[int, str] = {}
        self.records: list[ClientRecord] = []
        self.card_ids: dict[str, list[str]] = {card.id: [card.id] for card in CARDS}
        """Each card with its replacement, if it has one."""
        self.log: list[str] = []
        self.incarnations = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = 1_000

    # --- hosts ---

    def spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def note(self, line: str) -> None:
        self.log.append(f"{asyncio.get_running_loop().time():.6f} {line}")

    def fresh_id(self, beside: str) -> str:
        return an_id(0x600_0000 + self.number(), shard_of(beside))

    async def route(self, command: Command, timeout_ms: int) -> Reply:
        """Route a command as a host's own router does: under one command key, until its deadline."""
        record = await self.submit(command, attempts=max(1, timeout_ms // 20))
        return record.reply or NotExecuted("unavailable")

    async def publish(self, programme: Programme) -> None:
        """Announce a version as the coordinator does, to all living hosts, one after the other."""
        for host in [host for host in self.hosts.values() if host.alive]:
            await asyncio.sleep(0.0005)
            host.host.programme_changed(programme)

    async def create(self) -> SimulatedHost:
        self.incarnations += 1
        host = SimulatedHost(f"host-{self.incarnations}", self)
        self.hosts[host.name] = host
        await host.start()
        self.note(f"started {host.name}")
        return host

    def living(self) -> list[SimulatedHost]:
        return [host for host in self.hosts.values() if host.alive]

    async def give(self, shard: int, host: SimulatedHost) -> None:
        """Have ``host`` take a shard from any owner."""
        while host.alive:
            try:
                await host.host.take([shard])
            except JournalError:
                await asyncio.sleep(0.02)
            else:
                self.owners[shard] = host.name
                self.note(f"{host.name} owns {shard:02x} since {host.host.epochs.get(shard)}")
                return

    async def repair(self) -> None:
        """Make two hosts live, and every shard have a living owner."""
        while len(self.living()) < 2:
            await self.create()
        for shard in SHARDS:
            owner = self.hosts.get(self.owners.get(shard, ""))
            if owner is None or not owner.alive:
                await self.give(shard, self.dice.choice(self.living() or [await self.create()]))

    async def disturb_hosts(self) -> None:
        """Again and again: kill a host, take a shard without a release, or hand one over in order."""
        while True:
            await asyncio.sleep(self.dice.expovariate(1 / self.rates.host_fault_seconds))
            await self.repair()
            kind = self.dice.choice(("kill", "seize", "hand over"))
            shard = self.dice.choice(SHARDS)
            owner = self.hosts[self.owners[shard]]
            self.note(f"{kind} {owner.name} {shard:02x}")
            others = [host for host in self.living() if host is not owner]
            if kind == "kill":
                owner.die()
            elif kind == "hand over" and others and owner.alive:
                await self.hand_over(shard, owner, others[0])
            elif others:
                await self.give(shard, others[0])
            await self.repair()

    async def hand_over(self, shard: int, owner: SimulatedHost, successor: SimulatedHost) -> None:
        """Move a shard; its owner keeps it if its commits do not end in time."""
        with suppress(TimeoutError):
            await owner.host.release([shard])
            await self.give(shard, successor)

    async def watch(self) -> None:
        """Replace hosts that have died."""
        while True:
            await asyncio.sleep(0.05)
            await self.repair()

    # --- clients ---

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    async def submit(
        self, command: Command, claim: IdempotencyClaim | None = None, attempts: int = 60
    ) -> ClientRecord:
        """Send a command under one command key until there is a reply, at most ``attempts`` times; returns
        its record."""
        record = ClientRecord(command, claim, asyncio.get_running_loop().time())
        self.records.append(record)
        for _ in range(attempts):
            host = self._host_of(command)
            try:
                reply = await self._attempt(host, command, claim)
            except asyncio.CancelledError:
                # The client has died; its command has not.
                record.sure = False
                raise
            if reply is None or (isinstance(reply, NotExecuted) and reply.reason not in CERTAIN):
                record.sure = False
            elif not isinstance(reply, NotExecuted) or reply.reason == "key_reused":
                record.reply = reply
                break
            await asyncio.sleep(0.01)
        record.ended = asyncio.get_running_loop().time()
        self.note(f"{type(command).__name__} {command.id} {record.sure} {record.reply}")
        self._assert_announced(record)
        return record

    def _host_of(self, command: Command) -> SimulatedHost:
        """The owner, or a random host, as an old routing table could name it."""
        if self.dice.random() < (0.3 if isinstance(command, ReadBalance) else self.rates.lost):
            return self.dice.choice(self.living() or list(self.hosts.values()))
        return self.hosts[self.owners[shard_of(target_of(command))]]

    async def _attempt(
        self, host: SimulatedHost, command: Command, claim: IdempotencyClaim | None
    ) -> Reply | None:
        if not host.alive:
            return NotExecuted("not_owner")
        remaining_ms = self.dice.choice((50, 1_000))
        call = asyncio.ensure_future(host.host.execute([Submission(command, remaining_ms, claim)]))
        death = asyncio.ensure_future(host.dead.wait())
        await asyncio.wait((call, death), timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        death.cancel()
        if call.done() and host.alive:
            (reply,) = call.result()
            return reply
        call.cancel()
        return None

    def _assert_announced(self, record: ClientRecord) -> None:
        """Every living host has a programme's version before its caller gets the reply."""
        reply, command = record.reply, record.command
        changed = isinstance(command, CreateProgramme | ChangeProgramme)
        if changed and isinstance(reply, Done) and not reply.replayed:
            for host in self.living():
                known = host.host.activation.snapshots.get(ADMIN.id)
                assert known is None or known.config.version >= reply.body["version"]

    async def shop(self, card_id: str) -> None:
        """Random commands of one card: authorizations, follow-ups, changes, and their repeats."""
        sold: list[Authorize] = []
        for _ in range(self.dice.randint(2, 7)):
            await asyncio.sleep(self.dice.expovariate(5))
            number = self.number()
            command = self._random_command(number, card_id, sold)
            if isinstance(command, Authorize):
                sold.append(command)
            copies: list[CardCommand] = [command] * self.dice.choice((1, 1, 1, 2, 3))
            if isinstance(command, Authorize) and self.dice.random() < 0.1:
                copies.append(
                    msgspec.structs.replace(command, id=an_id(0x900_0000 + number), fingerprint=key(7))
                )
            await asyncio.gather(
                *(self.submit(copy, attempts=self.dice.choice((1, 60, 60))) for copy in copies)
            )

    def _random_command(self, number: int, card_id: str, sold: list[Authorize]) -> CardCommand:
        about: dict[str, Any] = {"id": an_id(0x100_0000 + number, shard_of(card_id)), "card_id": card_id}
        dice = self.dice.random()
        if dice < 0.45 or not sold:
            return authorize(number, amount_minor=self.dice.randint(1, 4_000), **about)
        earlier = self.dice.choice(sold)
        original = (reference_of_message(earlier.command_key),)
        if dice < 0.55:
            return authorize(number, amount_minor=self.dice.randint(1, 900), references=original, **about)
        wired = about | {"command_key": key(number), "fingerprint": key(number), "wire": wire(number)}
        if dice < 0.65:
            raised_minor = earlier.amount_minor if earlier.references else None
            return Reverse(**wired, references=original, increment_minor=raised_minor)
        if dice < 0.8:
            return Present(
                **wired,
                references=original,
                kind="purchase",
                amount_minor=self.dice.randint(1, 4_000),
                currency="EUR",
                mcc="5411",
                merchant_name="Shop",
                merchant_country="IE",
                arn=str(number),
                sequence=1,
            )
        if dice < 0.9:
            return authorize(number, kind="refund", amount_minor=100, **about)
        return change_card(number, state=self.dice.choice(("active", "suspended")), **about)

    async def fund(self, card_id: str) -> None:
        """Loads under idempotency keys, each sent by several concurrent requests; and balance reads."""
        for _ in range(self.dice.randint(1, 3)):
            await asyncio.sleep(self.dice.expovariate(4))
            claim = IdempotencyClaim(key(self.number()) * 2, key(1) * 2)
            amount_minor = self.dice.randint(1, 3_000)
            copies = [
                load(
                    self.number(),
                    card_id=card_id,
                    amount_minor=amount_minor,
                    id=an_id(0x400_0000 + self._numbers, shard_of(card_id)),
                    command_key=key(0x400_0000 + self._numbers),
                )
                for _ in range(self.dice.choice((1, 2, 3)))
            ]
            await asyncio.gather(*(self.submit(copy, claim) for copy in copies))
            for _ in range(3):
                await self.submit(read_balance(self.number(), card_id=card_id))

    async def move_money(self, card_id: str) -> None:
        """Transfers under idempotency keys, each sent by several concurrent requests; then reversals of them
        by several requests, which share the command key of the reversal."""
        for _ in range(self.dice.randint(1, 4)):
            await asyncio.sleep(self.dice.expovariate(4))
            claim = IdempotencyClaim(key(self.number()) * 2, key(1) * 2)
            amount_minor = self.dice.randint(1, 2_000)
            direction: Direction = self.dice.choice(("credit", "debit"))
            copies = [
                self._transfer(card_id, direction, amount_minor) for _ in range(self.dice.choice((1, 2, 3)))
            ]
            records = await asyncio.gather(*(self.submit(copy, claim) for copy in copies))
            posted = [each.reply.body for each in records if isinstance(each.reply, Done)]
            if posted and self.dice.random() < 0.7:
                reversals = [
                    self._reversal(card_id, direction, amount_minor, posted[0]["id"])
                    for _ in range(self.dice.choice((1, 2, 3)))
                ]
                await asyncio.gather(*(self.submit(each) for each in reversals))

    def _transfer(self, card_id: str, direction: Direction, amount_minor: int) -> Transfer:
        number = self.number()
        return transfer(
            number,
            id=an_id(0xC00_0000 + number, shard_of(card_id)),
            card_id=card_id,
            account_id=derive(card_id, Derived.ACCOUNT),
            direction=direction,
            kind="adjustment",
            amount_minor=amount_minor,
        )

    def _reversal(
        self, card_id: str, direction: Direction, amount_minor: int, transfer_id: str
    ) -> ReverseTransfer:
        number = self.number()
        posted = posted_transfer(
            id=transfer_id,
            account_id=derive(card_id, Derived.ACCOUNT),
            direction=direction,
            kind="adjustment",
            amount_minor=amount_minor,
        )
        return reverse_transfer(
            number,
            posted,
            id=an_id(0xD00_0000 + number, shard_of(card_id)),
            command_key=key_of(derive(transfer_id, Derived.TRANSFER_REVERSAL)),
            card_id=card_id,
        )

    async def replace(self, card_id: str) -> None:
        """Replace a card, by several requests under one command key, and go on with its replacement. The old
        card is used meanwhile."""
        await asyncio.sleep(self.dice.expovariate(2))
        number = self.number()
        command = replace_card(number, shard_of(card_id), card_id=card_id, reason="damaged")
        copies = [command] * self.dice.choice((1, 2, 3))
        records = await asyncio.gather(*(self.submit(copy, attempts=200) for copy in copies))
        if not any(isinstance(each.reply, Done) for each in records):
            return
        self.card_ids[card_id].append(command.id)
        await self.submit(self._activation(command.id), attempts=200)
        await self.shop(command.id)

    def _activation(self, card_id: str) -> SetCardholderStatus:
        number = self.number()
        return SetCardholderStatus(
            id=an_id(0xE00_0000 + number, shard_of(card_id)),
            command_key=key(0xE00_0000 + number),
            card_id=card_id,
            tenant_id=ADMIN.config.tenant_id,
            live=False,
            active=True,
        )

    async def rename(self) -> None:
        """Change the programme's name."""
        for _ in range(self.dice.randint(0, 3)):
            await asyncio.sleep(self.dice.expovariate(2))
            number = self.number()
            await self.submit(change_programme(number, programme_id=ADMIN.id, name=f"Name {number}"))

    async def govern(self) -> None:
        """Create a rule with a velocity, and change its limits and its state."""
        limits = (
            velocity("count", "PT10S", "gt", self.dice.randint(1, 3)),
            velocity("amount", "day", "gt", self.dice.randint(1_000, 9_000), of="account"),
        )
        await asyncio.sleep(self.dice.expovariate(5))
        when = self.dice.choice(limits)
        created = await self.submit(create_rule(self.number(), when, programme_id=ADMIN.id), attempts=200)
        for _ in range(self.dice.randint(0, 4)):
            await asyncio.sleep(self.dice.expovariate(5))
            number = self.number()
            change = RuleChange(
                rule_id=target_rule(created.command),
                state=self.dice.choice((None, "active", "shadow")),
                when=self.dice.choice((None, (limits[0],), (limits[1],))),
            )
            await self.submit(
                msgspec.structs.replace(change_rule(number, programme_id=ADMIN.id), change=change)
            )

    async def toggle_endpoint(self) -> None:
        """Start and end outages of the programme's endpoint."""
        while True:
            await asyncio.sleep(self.dice.expovariate(1))
            self.endpoint_up = not self.endpoint_up

    async def change_policy(self) -> None:
        """Change the stand-in policy, its currency included."""
        for _ in range(self.dice.randint(0, 3)):
            await asyncio.sleep(self.dice.expovariate(1))
            currency = self.dice.choice(("EUR", "EUR", "USD"))
            budget_minor = self.dice.randint(1, 20_000)
            await self.submit(self._policy(budget_currency=currency, max_total_exposure_minor=budget_minor))

    def _policy(self, **parts: Any) -> SetStandInPolicy:
        return set_policy(self.number(), programme_id=ADMIN.id, **parts)

    def _delegation(self) -> list[Command]:
        """The commands that make the programme delegated and its cards eligible for stand-in."""
        changes = {"decisioning": "delegated", "decision_url": "https://decide.example"}
        number = self.number()
        balances = [
            declare_balance(self.number(), card_id=card.id, amount_minor=self.dice.randint(0, 9_000))
            for card in CARDS
        ]
        return [change_programme(number, programme_id=ADMIN.id, **changes), self._policy(), *balances]

    # --- the run ---

    async def live(self) -> None:
        """Set up without faults, run the clients under faults, and end without faults."""
        rates, self.rates = self.rates, FaultRates(0, 0, 0, 0, 1)
        await self.repair()
        loads = [load(number, card_id=card.id) for number, card in enumerate(CARDS, 1)]
        setup: list[Command] = [ADMIN, *CARDS, *loads]
        if self.delegated:
            setup += self._delegation()
        for command in setup:
            record = await self.submit(command)
            assert isinstance(record.reply, Done), record.reply
        self.rates = rates
        self.spawn(self.watch())
        self.spawn(self.disturb_hosts())
        if self.delegated:
            self.spawn(self.toggle_endpoint())
            self.spawn(self.change_policy())
        clients = [self.shop(card.id) for card in CARDS] + [self.fund(card.id) for card in CARDS[:3]]
        clients += [self.move_money(card.id) for card in CARDS[2:]]
        clients += [self.replace(card.id) for card in CARDS[1:] if self.dice.random() < 1 / 3]
        clients += [self.govern()] if self.governed else []
        await asyncio.gather(*clients, self.rename())
        await self._settle()

    async def _settle(self) -> None:
        """Run without faults until all work has ended, and stop the hosts."""
        self.rates = FaultRates(0, 0, 0, 0, 1)
        await asyncio.sleep(3)
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for host in self.living():
            await host.programmes.exposure.stop()
            await host.host.stop()
