"""Simulations under faults, for hundreds of seeds: replies to clients are true, and the books balance.

``STANCHION_TEST_SEEDS`` is the number of seeds (``make chaos``: 50,000); ``STANCHION_TEST_SEED`` selects one
seed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from actors.journal.memory_store import MemoryStore
from actors.journal.memory_tables import Row
from actors.shards.late_reversals import is_note
from engine.authorization.effects import AuthorizationOpened
from engine.authorization.executed import CommandContext
from engine.cards.account import Account
from engine.cards.authorization import Authorization
from engine.cards.authorization_index import AuthorizationIndex
from engine.cards.card import Card, has_tombstone
from engine.commands import (
    AuthorizationCommand,
    Authorize,
    CardCommand,
    CreateCard,
    CreateProgramme,
    GrantStandIns,
    ProgrammeCommand,
    ReadBalance,
    ReverseTransfer,
    Transfer,
    reference_of_id,
    reference_of_message,
    target_of,
)
from engine.decision.decide import authorize
from engine.decision.inputs import Inputs
from engine.execution import execute_programme
from engine.execution.execute import execute
from engine.execution.issuing import card_of, issue
from engine.ids import Derived, derive
from engine.programmes.programme import Programme, ProgrammeConfig
from engine.replies import Done, Granted, NotExecuted, Problem, Reply, WireAnswer
from engine.rules.evaluate import RecordedPast, RuleSet, recorded_rules
from engine.rules.model import Rule
from tests.support.actors.shards.simulation import ADMIN, ClientRecord, Installation
from tests.support.actors.shards.virtual_time import run

CHAOS = os.environ.get("STANCHION_CHAOS") == "1"
COUNT = int(os.environ.get("STANCHION_TEST_SEEDS", "50000" if CHAOS else "300"))
SLICES = 10


def seeds(slice_: int) -> range | list[int]:
    alone = os.environ.get("STANCHION_TEST_SEED")
    return [int(alone)] if alone is not None else range(slice_, COUNT, SLICES)


def lived(seed: int) -> Installation:
    """Run the simulation of one seed."""

    async def main() -> Installation:
        installation = Installation(seed)
        await installation.live()
        return installation

    return run(main())


@pytest.mark.parametrize("slice_", range(SLICES))
def test_replies_and_books_are_true_under_faults(slice_: int) -> None:
    for seed in seeds(slice_):
        try:
            installation = lived(seed)
            for check in CHECKS:
                check(installation)
        except BaseException as failure:
            failure.add_note(f"STANCHION_TEST_SEED={seed}")
            raise


def test_simulations_cover_every_kind_of_event() -> None:
    """Rare events can need more seeds than the others."""
    rare = {
        "hold held",
        "hold captured",
        "hold released",
        "stand-in within_ceilings",
        "stand-in max_total_exposure_exceeded",
        "stand-in declared_balance_exceeded",
        "stand-in budget_unreachable",
        "rule match, active",
        "rule match, shadow",
    }
    seen: Counter[str] = Counter()
    seeds = 0
    while seeds < 40 or (seeds < 200 and not rare <= set(seen)):
        installation = lived(seeds)
        seeds += 1
        seen["host losses"] += installation.incarnations - 2
        seen["takeovers"] += sum(installation.store.epochs)
        for record in installation.records:
            seen["replayed"] += getattr(record.reply, "replayed", False)
            seen["unsure"] += not record.sure
            seen["unanswered"] += record.reply is None
            code = record.reply.response_code if isinstance(record.reply, WireAnswer) else ""
            seen["approved"] += code == "00"
            seen["conflict"] += code == "94"
            moved = isinstance(record.command, Transfer | ReverseTransfer)
            seen["transfer refused"] += moved and isinstance(record.reply, Problem)
            seen["transfer reversed"] += isinstance(record.command, ReverseTransfer) and isinstance(
                record.reply, Done
            )
        rows = installation.store.holds.rows.values()
        seen |= Counter(f"hold {row['state']}" for row in rows)
        seen |= Counter(f"stand-in {row['rule']}" for row in installation.store.stand_ins.rows.values())
        matches = installation.store.rule_matches.rows.values()
        seen |= Counter(f"rule match, {'shadow' if row['shadow'] else 'active'}" for row in matches)
        seen["replacements"] += len(installation.store.card_replacements.rows)
        seen["purchases of replacements"] += sum(
            row["decline_reason"] is None and row["kind"] == "purchase"
            for row in installation.store.transactions.rows.values()
            if any(row["card_id"] in ids[1:] for ids in installation.card_ids.values())
        )
        seen["rule versions"] += len(installation.store.rule_versions)
        seen["outages ended"] += sum(
            row["ended_at"] is not None for row in installation.store.outages.rows.values()
        )
    assert {name: count for name, count in seen.items() if not count} == {}
    assert rare <= set(seen)
    assert seen["host losses"] > 40
    assert seen["unsure"] > 100
    assert seen["takeovers"] > 300
    assert seen["transfer reversed"] > 100


def test_same_seed_gives_the_same_run() -> None:
    for seed in range(5):
        assert transcript(lived(seed)) == transcript(lived(seed))


def test_same_seed_gives_the_same_run_in_another_process() -> None:
    """A run does not depend on the order of sets, which differs between processes."""
    script = (
        "import hashlib, json; from tests.actors.shards.test_simulation import lived, transcript; "
        "print(hashlib.sha256(''.join(transcript(lived(seed)) for seed in range(3)).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(Path.cwd())},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in (1, 2)
    }
    assert len(digests) == 1
    own = "".join(transcript(lived(seed)) for seed in range(3))
    assert digests == {hashlib.sha256(own.encode()).hexdigest() + "\n"}


def transcript(installation: Installation) -> str:
    """The log and the rows of a run, without the vault's nonces."""
    store = installation.store
    tables = (store.journal, store.accounts, store.holds, store.transactions, store.events)
    rows = [repr(list(table.rows.values())) for table in tables]
    return "\n".join([*installation.log, *rows])


# --- the journal ---


def journal_of(store: MemoryStore, actor_id: str) -> list[Row]:
    rows = [row for row in store.journal.rows.values() if row["actor_id"] == actor_id]
    return sorted(rows, key=lambda row: int(row["seq"]))


def issues_of(store: MemoryStore) -> list[Row]:
    """The issues of all cards."""
    return [row for row in store.journal.rows.values() if row["kind"] == "create_card"]


def one_order(installation: Installation) -> None:
    """``seq`` has no gaps, and epochs never decrease along it (G2)."""
    for actor_id in (ADMIN.id, *(id_ for ids in installation.card_ids.values() for id_ in ids)):
        rows = journal_of(installation.store, actor_id)
        assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
        assert all(before["epoch"] <= after["epoch"] for before, after in pairwise(rows))


def real_time(installation: Installation) -> None:
    """A command that ended before another one began precedes it in the journal (G4)."""
    began: dict[bytes, float] = {}
    ended: dict[bytes, float] = {}
    for record in installation.records:
        command_key = record.command.command_key
        began[command_key] = min(record.began, began.get(command_key, record.began))
        if record.reply is not None and record.ended is not None:
            ended[command_key] = min(record.ended, ended.get(command_key, record.ended))
    for card_id in (id_ for ids in installation.card_ids.values() for id_ in ids):
        keys = [row["command_key"] for row in journal_of(installation.store, card_id)]
        latest_start = 0.0
        # A replacement is issued by the command on its predecessor.
        for command_key in (each for each in keys if each in began):
            assert ended.get(command_key, float("inf")) >= latest_start
            latest_start = max(latest_start, began[command_key])


def replay_equals_state(installation: Installation) -> None:
    """Replaying the journal gives the stored replies and rows. No balance read is older than the changes that
    were acknowledged before it."""
    store = installation.store
    configs = {
        after.config.version: after.config for after in replayed_programme(journal_of(store, ADMIN.id))
    }
    for ids in installation.card_ids.values():
        versions = _replay(store, ids, configs)
        records = [each for each in installation.records if target_of(each.command) in ids and each.reply]
        for read in records:
            if isinstance(read.command, ReadBalance) and isinstance(read.reply, Done):
                acknowledged = (
                    versions.get(each.command.command_key, 0)
                    for each in records
                    if each.ended is not None and each.ended < read.began
                )
                assert read.reply.body["version"] >= max(acknowledged, default=0)


def replayed_programme(rows: list[Row]) -> list[Programme]:
    """Replay a programme's commands; returns the programme after each, and checks the stored replies."""
    made: list[Programme] = []
    for row in rows:
        command = msgspec.json.decode(row["command"], type=ProgrammeCommand)
        if isinstance(command, CreateProgramme):
            result = execute_programme.create(command, row["recorded_at"])
        else:
            result = execute_programme.execute_programme(command, made[-1], row["recorded_at"])
        assert result.after is not None
        assert result.after.seq == row["seq"]
        assert msgspec.json.encode(result.reply).decode() == row["reply"]
        made.append(result.after)
    return made


def observed_values_are_true(
    rules: RuleSet,
    inputs: Inputs,
    of_account: list[AuthorizationIndex],
    of_card: list[AuthorizationIndex],
    began: dict[str, int],
) -> None:
    """Each velocity of a decision equals a recount of all purchases before it. ``of_card`` includes those of
    the replaced card. ``began`` has the instants of authorizations and increments."""
    assert inputs.rules_in_force is not None
    for velocity, observed in zip(rules.velocities, inputs.rules_in_force.observed, strict=True):
        since_ms = inputs.now_ms - 10_000 if velocity.window == "PT10S" else 0
        count = amount_minor = 0
        indexes = of_card if velocity.of == "card" else of_account
        for each in (each for index in indexes for each in index):
            if each.kind not in ("purchase", "force_post") or each.decline_reason is not None:
                continue
            net_minor = each.approved_minor - each.reversed_minor
            for name, increment in each.increments.items():
                net_minor -= increment.counted_minor
                amount_minor += increment.counted_minor if began[name] > since_ms else 0
            if began[each.id] > since_ms:
                amount_minor += net_minor
                total_minor = each.approved_minor - each.reversed_minor
                count += each.kind == "purchase" and (total_minor > 0 or each.cleared_minor > 0)
        assert observed.value == (count if velocity.measure == "count" else amount_minor)


def _replay(store: MemoryStore, ids: list[str], configs: dict[int, ProgrammeConfig]) -> dict[bytes, int]:
    """Replay the journal of a card and its replacement, in the order of the commits; returns the version of
    their balance after each command."""
    rows = [row for row in store.journal.rows.values() if row["actor_id"] in ids]
    versions: dict[bytes, int] = {}
    written = {name: msgspec.json.decode(text, type=Rule) for name, text in store.rule_versions.items()}
    began: dict[str, int] = {}
    indexes = {id_: AuthorizationIndex() for id_ in ids}
    cards: dict[str, Card] = {}
    account: Account | None = None
    for row in rows:
        command: CardCommand = msgspec.json.decode(row["command"], type=CardCommand)
        known = indexes[row["actor_id"]]
        if isinstance(command, CreateCard):
            cards[command.id] = card_of(command, row["recorded_at"])
            account = account or Account(
                id=command.account_id or "",
                tenant_id=command.tenant_id,
                live=command.live,
                programme_id=command.programme_id,
                currency=command.currency,
            )
            executed = issue(command, cards[command.id], account)
        else:
            inputs = msgspec.json.decode(row["inputs"], type=Inputs) if row["inputs"] else None
            config = configs[inputs.programme_version if inputs else 1]
            original: Authorization | None = None
            if isinstance(command, AuthorizationCommand):
                original = known.find_original(command, account, row["recorded_at"])
            endpoint_result = inputs.endpoint_result if inputs else None
            in_force = inputs.rules_in_force if inputs else None
            rules = recorded_rules(in_force, written)
            past = RecordedPast(in_force.observed) if in_force else None
            if inputs is not None and in_force is not None:
                of_card = [indexes[id_] for id_ in ids[: ids.index(command.card_id) + 1]]
                observed_values_are_true(rules, inputs, [*indexes.values()], of_card, began)
            context = CommandContext(
                cards[command.card_id], account, config, original, endpoint_result, rules, past
            )
            executed = execute(command, context, row["recorded_at"])
            if command.id == row["authorization_id"]:
                began[command.id] = row["recorded_at"]
            began[reference_of_message(row["command_key"])] = row["recorded_at"]
            if isinstance(command, Authorize) and inputs is not None:
                assert msgspec.json.encode(authorize(command, inputs, rules)).decode() == row["decision"]
        for effect in executed.effects:
            if isinstance(effect, AuthorizationOpened):
                known.add(effect.authorization)
        about = reference_of_id(executed.authorization_id or "")
        if about in known:
            known.add_reference(reference_of_message(row["command_key"]), known[about])
        card = cards[row["actor_id"]]
        card.seq += 1
        assert card.seq == row["seq"]
        assert executed.journaled
        assert msgspec.json.encode(executed.reply).decode() == row["reply"]
        assert {event.id for event in executed.events} <= {id_ for _, _, id_ in store.events.rows}
        assert account is not None
        versions[row["command_key"]] = account.version
    assert account is not None
    ended_ms = rows[-1]["recorded_at"]
    for card in cards.values():
        card.tombstones = {
            name: at for name, at in card.tombstones.items() if has_tombstone(card, (name,), ended_ms)
        }
        kept = store.card(card.id, ended_ms)
        assert kept is not None
        # Notes of late reversals are not commands of the journal.
        kept.tombstones = {name: at for name, at in kept.tombstones.items() if not is_note(name)}
        assert kept == card
    assert list(cards) == ids
    assert store.account(account.id) == account
    for authorization in (each for index in indexes.values() for each in index):
        row = store.transactions.rows[authorization.id]
        hold = account.holds.get(authorization.hold_id or "")
        assert (row["approved_minor"], row["cleared_minor"], row["reversed_minor"], row["held_minor"]) == (
            authorization.approved_minor,
            authorization.cleared_minor,
            authorization.reversed_minor,
            hold.amount_minor if hold else 0,
        )
    return versions


def books_balance(installation: Installation) -> None:
    """Debits equal credits, posted balances are sums of entries, and held balances are sums of open holds."""
    store = installation.store
    transfers: dict[str, list[int]] = defaultdict(list)
    posted: Counter[str] = Counter()
    for row in store.ledger_entries.rows.values():
        signed = row["amount_minor"] if row["direction"] == "credit" else -row["amount_minor"]
        transfers[row["transfer_id"]].append(signed)
        posted[row["account_id"]] += signed
    assert all(len(sides) == 2 and not sum(sides) for sides in transfers.values())
    held: Counter[str] = Counter()
    for row in store.holds.rows.values():
        held[row["account_id"]] += row["amount_minor"] if row["state"] == "held" else 0
    for row in store.accounts.rows.values():
        if row["kind"] == "card":
            assert (row["posted_minor"], row["held_minor"]) == (posted[row["id"]], held[row["id"]])
    authorizations = [row["authorization_id"] for row in store.holds.rows.values() if row["state"] == "held"]
    assert len(authorizations) == len(set(authorizations))


def each_decision_has_one_event(installation: Installation) -> None:
    """Each decision in the journal has exactly one ``authorization.decided``."""
    store = installation.store
    decided = [row for row in store.journal.rows.values() if row["decision"] and row["inputs"]]
    events = [row for row in store.events.rows.values() if row["type"] == "authorization.decided"]
    about = [msgspec.json.decode(row["data"])["authorization_id"] for row in events]
    assert sorted(about) == sorted(row["authorization_id"] for row in decided)


# --- replies to clients ---


def stored_reply(row: Row) -> Reply:
    reply: Reply = msgspec.json.decode(row["reply"], type=Reply)
    return reply


def answers_are_true(installation: Installation) -> None:
    """Replies are in the journal as they were given; commands that were certainly not executed are not (G1,
    G3)."""
    store = installation.store
    claimed = {record.claim.key_digest for record in installation.records if record.claim}
    doubtful = {record.command.command_key for record in installation.records if not had_no_effect(record)}
    for record in installation.records:
        row = store.command_keys.get(record.command.command_key)
        if had_no_effect(record) and record.command.command_key not in doubtful:
            assert row is None
        if isinstance(record.reply, WireAnswer) or (record.claim is None and has_written(record)):
            assert row is not None
            assert_same(record, stored_reply(row))
    assert claimed <= set(store.idempotency.rows) | {
        record.claim.key_digest
        for record in installation.records
        # Owners do not store refusals.
        if record.claim and (record.reply is None or isinstance(record.reply, Problem))
    }


def had_no_effect(record: ClientRecord) -> bool:
    """Whether the submission certainly had no effect."""
    return record.sure and (record.reply is None or isinstance(record.reply, NotExecuted | Problem))


UNCERTAIN_CHANGES = {
    "read_balance",
    "change_card",
    "change_programme",
    "change_programme_rule",
    "set_stand_in_policy",
}
"""Commands that can succeed without writing a row."""


def has_written(record: ClientRecord) -> bool:
    """Whether the command has certainly written a row."""
    tag = record.command.__struct_config__.tag
    if not isinstance(record.reply, Done) or tag in UNCERTAIN_CHANGES:
        return False
    return record.reply.body.get("ended") is not False


def assert_same(record: ClientRecord, stored: Reply) -> None:
    if isinstance(record.reply, WireAnswer) and record.reply.response_code == "94":
        assert isinstance(record.command, Authorize)
        assert isinstance(stored, WireAnswer)
        assert record.reply.authorization_id == stored.authorization_id != record.command.id
        return
    assert msgspec.structs.replace(record.reply, replayed=False) == stored  # type: ignore[type-var]


def keys_have_one_effect(installation: Installation) -> None:
    """At most one request of each idempotency key is executed, and all get its reply (G5)."""
    by_key: dict[bytes, list[ClientRecord]] = defaultdict(list)
    for record in installation.records:
        if record.claim is not None:
            by_key[record.claim.key_digest].append(record)
    for copies in by_key.values():
        executed = [each for each in copies if each.command.command_key in installation.store.command_keys]
        assert len(executed) <= 1
        bodies = [each.reply.body for each in copies if isinstance(each.reply, Done)]
        assert all(body == bodies[0] for body in bodies)
        assert not bodies or executed


def transfers_post_once(installation: Installation) -> None:
    """An acknowledged transfer is posted exactly once, and so is an acknowledged reversal, with the opposite
    amount; no other command posts for them."""
    store = installation.store
    posted: Counter[str] = Counter()
    for row in store.ledger_entries.rows.values():
        account = store.accounts.rows[row["account_id"]]
        if account["kind"] == "card":
            sign = 1 if row["direction"] == "credit" else -1
            posted[row["transfer_id"]] += sign * row["amount_minor"]
    reversals: dict[str, list[str]] = defaultdict(list)
    for row in store.journal.rows.values():
        if row["kind"] == "reverse_transfer":
            reversal = msgspec.json.decode(row["command"], type=ReverseTransfer)
            reversals[reversal.transfer.id].append(derive(reversal.id, Derived.TRANSFER))
    for record in installation.records:
        command, reply = record.command, record.reply
        if not (isinstance(command, Transfer | ReverseTransfer) and isinstance(reply, Done)):
            continue
        moved_minor = posted[reply.body["id"]]
        assert abs(moved_minor) == round(float(reply.body["amount"]["amount"]) * 100)
        ended = reversals[reply.body["id"]]
        assert len(ended) <= 1
        assert all(posted[each] == -moved_minor for each in ended)
        if isinstance(command, ReverseTransfer):
            assert ended == [reply.body["reversal_id"]]


def programmes_have_no_gaps(installation: Installation) -> None:
    """Versions increase by one, and the stored programme equals the replayed one."""
    replayed = replayed_programme(journal_of(installation.store, ADMIN.id))
    versions = list(dict.fromkeys(after.config.version for after in replayed))
    assert versions == list(range(1, len(versions) + 1))
    assert installation.store.programme(ADMIN.id) == replayed[-1]


def exposure_is_bounded(installation: Installation) -> None:
    """Every stand-in approval was reserved once, within its budget. Each ended outage has exactly one event
    (G6)."""
    store = installation.store
    granted: dict[str, int] = {}
    used: Counter[tuple[str, int]] = Counter()
    before: Programme | None = None
    for row, after in zip(rows := journal_of(store, ADMIN.id), replayed_programme(rows), strict=True):
        if row["kind"] == "grant_stand_ins" and before is not None and after.outage is not None:
            command = msgspec.json.decode(row["command"], type=GrantStandIns)
            replies = msgspec.json.decode(row["reply"], type=Granted).grants
            for request, grant in zip(command.asks, replies, strict=True):
                if grant.rule == "within_ceilings":
                    granted[derive(request.id, Derived.STAND_IN)] = request.amount_minor
                    used[after.outage.id, after.outage.period] += request.amount_minor
                    assert grant.limit_minor is not None
                    assert used[after.outage.id, after.outage.period] <= grant.limit_minor
        before = after
    assert used == Counter(
        {key: row["used_minor"] for key, row in store.outages.rows.items() if row["used_minor"]}
    )
    consumed: Counter[str] = Counter()
    for row in store.stand_ins.rows.values():
        consumed[row["card_id"]] += row["exposure_minor"]
        if row["exposure_minor"]:
            assert granted[row["id"]] == row["exposure_minor"]
    for row in issues_of(store):
        # A replacement continues the consumption of its predecessor.
        continues = msgspec.json.decode(row["command"], type=CreateCard).continues
        consumed[row["actor_id"]] += continues.consumed_minor if continues is not None else 0
    for row in store.declared_balances.rows.values():
        assert row["consumed_minor"] == consumed[row["card_id"]] <= row["balance_minor"]
    ended = {id_ for (id_, _), row in store.outages.rows.items() if row["ended_at"] is not None}
    ended -= {id_ for (id_, _), row in store.outages.rows.items() if row["ended_at"] is None}
    finished = [row for row in store.events.rows.values() if row["type"].endswith("stip_outage.finished")]
    assert len(finished) == len(ended)


CHECKS = (
    one_order,
    real_time,
    replay_equals_state,
    books_balance,
    each_decision_has_one_event,
    answers_are_true,
    keys_have_one_effect,
    transfers_post_once,
    programmes_have_no_gaps,
    exposure_is_bounded,
)
