"""The books, checked from outside: every promise that the rows alone can prove or refute.

``stanchion audit`` reads one snapshot of the whole database, so it may run beside live traffic, and trusts
nothing that the service has in memory. Each check says of each of its subjects whether the promise holds;
the decisions themselves are made again from their stored inputs and compared byte by byte.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

import asyncpg
import msgspec

from engine.commands import Authorize
from engine.decide import Inputs, authorize
from engine.limits import EVENT_RETENTION_DAYS
from ops.histories.lives import lived_again, stands

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

EXAMPLES_MAX: Final = 3
REPLAY_FETCH: Final = 1_000

_command = msgspec.json.Decoder(Authorize).decode
_inputs = msgspec.json.Decoder(Inputs).decode
_encode = msgspec.json.Encoder().encode


class AuditError(Exception):
    """The audit cannot be made, or has found something. The message is one line."""


@dataclass(frozen=True)
class Finding:
    """What one check saw. ``examples`` are ids of the first subjects for which the promise does not hold."""

    promise: str
    subjects: int
    broken: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        verdict = f"BROKEN for {self.broken} of" if self.broken else "holds for"
        examples = f": {', '.join(self.examples)}" if self.broken else ""
        return f"{self.promise}: {verdict} {self.subjects}{examples}"


# Everything that was decided: first decisions, increments, and what a network decided without asking.
_DECIDED: Final = """
    WITH decided AS (
        SELECT c.id, j.kind, j.actor_id, j.recorded_at, j.authorization_id, j.decision::jsonb AS decision
        FROM journal j CROSS JOIN LATERAL (SELECT (j.command::jsonb ->> 'id')::uuid AS id) c
        WHERE j.kind IN ('authorize', 'increment') OR (j.kind = 'advise' AND j.authorization_id = c.id))
"""
# The event of a command has the command's id with 0x10 flipped into its fifteenth byte (engine.ids).
_EVENT_OF_COMMAND: Final = (
    "encode(set_byte(uuid_send(id), 14, get_byte(uuid_send(id), 14) # 16), 'hex')::uuid"
)
# The record of a stand-in, in the same way with 0x09.
_STAND_IN_OF_COMMAND: Final = (
    "encode(set_byte(uuid_send(id), 14, get_byte(uuid_send(id), 14) # 9), 'hex')::uuid"
)
_REPEATABLE: Final = "decisions made again from their stored inputs give the same bytes"
_LIVED_AGAIN: Final = "a card's journal lived through again gives the same answers"
_STANDING: Final = "and leaves its counters, balance and transactions as they stand"

# Each statement gives a row (subject, holds) for everything that the promise is about.
PROMISES: Final[dict[str, str]] = {
    "held is the sum of the open holds": """
        SELECT a.id, a.held_minor = coalesce(sum(h.amount_minor), 0)
        FROM accounts a LEFT JOIN holds h ON h.account_id = a.id AND h.state = 'held'
        WHERE a.kind = 'card' GROUP BY a.id""",
    "posted is the sum of the entries": """
        SELECT a.id, a.posted_minor = coalesce(sum(
            CASE e.direction WHEN 'credit' THEN e.amount_minor ELSE -e.amount_minor END), 0)
        FROM accounts a LEFT JOIN ledger_entries e ON e.account_id = a.id
        WHERE a.kind = 'card' GROUP BY a.id""",
    "the debits of a transfer are its credits": """
        SELECT transfer_id, sum(amount_minor) FILTER (WHERE direction = 'debit')
            = sum(amount_minor) FILTER (WHERE direction = 'credit')
        FROM ledger_entries GROUP BY transfer_id, currency""",
    "an entry is in its account's currency": """
        SELECT e.id, e.currency = a.currency
        FROM ledger_entries e LEFT JOIN accounts a ON a.id = e.account_id""",
    "seq is gap-free from 1": """
        SELECT actor_id, min(seq) = 1 AND max(seq) = count(*) FROM journal GROUP BY actor_id""",
    "cards and programmes stand at their last seq": """
        SELECT at.id, at.seq = (SELECT max(seq) FROM journal WHERE actor_id = at.id)
        FROM (SELECT card_id AS id, seq FROM card_usage UNION ALL SELECT id, seq FROM programmes) at""",
    "epochs never decrease along seq": """
        SELECT j.actor_id::text || '/' || j.seq, j.epoch <= s.epoch
            AND j.epoch >= coalesce(lag(j.epoch) OVER (PARTITION BY j.actor_id ORDER BY j.seq), 0)
        FROM journal j LEFT JOIN shards s ON s.shard = get_byte(uuid_send(j.actor_id), 15)""",
    "a card and its account have one owner": """
        SELECT c.id, get_byte(uuid_send(c.id), 15) = get_byte(uuid_send(a.id), 15)
        FROM cards c LEFT JOIN accounts a ON a.id = c.account_id WHERE c.account_id IS NOT NULL""",
    "each first decision has its transaction": _DECIDED
    + """
        SELECT coalesce(d.id, t.id), (t.card_id, t.seq) = (j.actor_id, j.seq) AND j.authorization_id = t.id
        FROM (SELECT * FROM decided WHERE kind <> 'increment') d FULL JOIN transactions t ON t.id = d.id
        LEFT JOIN journal j ON j.actor_id = t.card_id AND j.seq = t.seq""",
    "a transaction says what was decided": _DECIDED
    + """
        SELECT t.id, t.approved_minor = sum((d.decision ->> 'approved_minor')::bigint)
            AND t.decline_reason IS NOT DISTINCT FROM min(d.decision ->> 'reason') FILTER (WHERE d.id = t.id)
        FROM transactions t JOIN decided d ON d.authorization_id = t.id
        WHERE NOT EXISTS (SELECT FROM journal a WHERE a.authorization_id = t.id AND a.kind = 'advise')
        GROUP BY t.id""",
    "each decision has one authorization.decided, which says the same": _DECIDED
    + f"""
        , announced AS (SELECT *, {_EVENT_OF_COMMAND} AS event_id FROM decided)
        , told AS (SELECT id, data::jsonb AS data FROM events WHERE type = 'authorization.decided')
        SELECT coalesce(d.id, t.id),
            (t.id IS NULL AND d.recorded_at < now() - interval '{EVENT_RETENTION_DAYS} days') OR (
            t.data ->> 'authorization_id' = d.authorization_id::text AND (d.kind = 'advise' OR (
                t.data ->> 'decision' = d.decision ->> 'decision'
                AND t.data ->> 'decline_reason' IS NOT DISTINCT FROM d.decision ->> 'reason'
                AND replace(t.data ->> 'approved_amount', '.', '')::bigint
                    = (d.decision ->> 'approved_minor')::bigint)))
        FROM announced d FULL JOIN told t ON t.id = d.event_id""",
    "a hold is its transaction's, and only the newest of these may be other than lapsed": """
        SELECT h.id, (h.card_id, h.account_id) = (t.card_id, c.account_id)
            AND (h.id = t.hold_id OR h.state = 'lapsed')
        FROM holds h LEFT JOIN transactions t ON t.id = h.authorization_id
        LEFT JOIN cards c ON c.id = t.card_id""",
    "each managed approval has a hold, and nothing else has one": """
        SELECT t.id, CASE
            WHEN t.kind <> 'purchase' OR t.approved_minor = 0 OR c.account_id IS NULL
                OR p.config::jsonb ->> 'mode' = 'gateway' OR (t.hold_id IS NULL AND t.reversed_minor > 0)
            THEN t.hold_id IS NULL AND held.authorization_id IS NULL
            ELSE h.authorization_id = t.id END
        FROM transactions t JOIN cards c ON c.id = t.card_id JOIN programmes p ON p.id = t.programme_id
        LEFT JOIN holds h ON h.id = t.hold_id
        LEFT JOIN (SELECT DISTINCT authorization_id FROM holds) held ON held.authorization_id = t.id""",
    "a transaction holds what its holds hold, and no more than is left": """
        SELECT t.id, t.held_minor = coalesce(sum(h.amount_minor), 0) AND t.held_minor
            <= greatest(0, t.approved_minor - t.cleared_minor - t.reversed_minor)
        FROM transactions t LEFT JOIN holds h ON h.authorization_id = t.id AND h.state = 'held'
        GROUP BY t.id""",
    "what was posted for a transaction are its entries": """
        SELECT t.id,
            CASE WHEN t.kind = 'refund' THEN t.approved_minor - t.reversed_minor ELSE -t.cleared_minor END
            = coalesce(sum(CASE e.direction WHEN 'credit' THEN e.amount_minor ELSE -e.amount_minor END), 0)
        FROM transactions t JOIN cards c ON c.id = t.card_id JOIN programmes p ON p.id = t.programme_id
        LEFT JOIN ledger_entries e ON e.authorization_id = t.id AND e.account_id = c.account_id
        WHERE p.config::jsonb ->> 'mode' IS DISTINCT FROM 'gateway' GROUP BY t.id""",
    "in gateway mode nothing is posted or held here": """
        SELECT c.id, c.account_id IS NULL
            AND NOT EXISTS (SELECT FROM holds WHERE card_id = c.id)
            AND NOT EXISTS (SELECT FROM ledger_entries e JOIN transactions t ON t.id = e.authorization_id
                            WHERE t.card_id = c.id)
        FROM cards c JOIN programmes p ON p.id = c.programme_id
        WHERE p.config::jsonb ->> 'mode' = 'gateway'""",
    "a gateway transaction is open as long as something of it is to come": """
        SELECT t.id, (t.status IN ('pending', 'partially_cleared')) = (t.remainder_minor > 0)
            AND t.remainder_minor <= greatest(0, t.approved_minor - t.reversed_minor)
            AND (t.remainder_minor = 0 OR t.closed IS NULL)
        FROM transactions t JOIN programmes p ON p.id = t.programme_id
        WHERE p.config::jsonb ->> 'mode' = 'gateway'""",
    "a gateway programme was told to post what became of each transaction": f"""
        WITH instructions AS (
            SELECT type, data::jsonb ->> 'authorization_id' AS id,
                replace(data::jsonb ->> 'amount', '.', '')::bigint AS minor
            FROM events WHERE type LIKE '%posting_instruction%')
        , told AS (
            SELECT id,
                coalesce(sum(minor) FILTER (WHERE type LIKE '%.issued'), 0) AS issued_minor,
                coalesce(sum(minor) FILTER (WHERE type LIKE '%.released'), 0) AS released_minor,
                coalesce(sum(minor) FILTER (WHERE type LIKE '%.created'), 0) AS cleared_minor
            FROM instructions GROUP BY id)
        , became AS (
            SELECT t.*, CASE j.kind WHEN 'present' THEN 0 ELSE t.approved_minor END AS issued_minor,
                t.reversed_minor + (
                    SELECT coalesce(sum((f.decision::jsonb ->> 'released_minor')::bigint), 0)
                    FROM journal f WHERE f.authorization_id = t.id AND f.kind = 'present') AS released_minor
            FROM transactions t JOIN programmes p ON p.id = t.programme_id
            LEFT JOIN journal j ON j.actor_id = t.card_id AND j.seq = t.seq
            WHERE p.config::jsonb ->> 'mode' = 'gateway')
        SELECT coalesce(became.id::text, told.id), became.id IS NOT NULL AND (
            became.created_at < now() - interval '{EVENT_RETENTION_DAYS} days' OR
            (became.issued_minor, became.released_minor, became.cleared_minor) = (
                coalesce(told.issued_minor, 0), coalesce(told.released_minor, 0),
                coalesce(told.cleared_minor, 0)))
        FROM became FULL JOIN told ON told.id = became.id::text""",
    "counters of a card that was only spent on are the approvals of its day": _DECIDED
    + """
        SELECT u.card_id, u.day_count = count(d.id) FILTER (WHERE d.kind = 'authorize')
            AND u.day_amount_minor = coalesce(sum((d.decision ->> 'approved_minor')::bigint), 0)
        FROM card_usage u LEFT JOIN (
            SELECT d.* FROM decided d JOIN transactions t ON t.id = d.authorization_id
            WHERE t.kind = 'purchase' AND (d.decision ->> 'approved_minor')::bigint > 0
        ) d ON d.actor_id = u.card_id AND d.decision ->> 'day' = u.day
        WHERE NOT EXISTS (
            SELECT FROM journal WHERE actor_id = u.card_id AND kind IN ('reverse', 'present', 'advise'))
        AND NOT EXISTS (SELECT FROM tombstones WHERE card_id = u.card_id)
        GROUP BY u.card_id""",
    "what the simulated network heard was decided": _DECIDED
    + """
        SELECT s.id, s.response_code = d.decision ->> 'response_code'
            AND s.approval_code IS NOT DISTINCT FROM d.decision ->> 'approval_code'
            AND coalesce(s.approved_minor, 0) = (d.decision ->> 'approved_minor')::bigint
        FROM simulations s LEFT JOIN decided d ON d.id = s.authorization_id
        WHERE s.authorization_id IS NOT NULL AND s.operation = 'spend'
            AND s.request::jsonb ->> 'scenario' IS DISTINCT FROM 'force_stip_timeout'""",
    "a programme's versions rise by 1": """
        SELECT p.id, max(told.version) = p.version AND max(told.version) - min(told.version) + 1 = count(*)
        FROM programmes p JOIN (
            SELECT data::jsonb ->> 'programme_id' AS id, (data::jsonb ->> 'version')::bigint AS version
            FROM events WHERE type LIKE 'programme.%') told ON told.id = p.id::text
        GROUP BY p.id""",
    "what is used of an outage's budgets was granted": """
        SELECT coalesce(o.id, g.id), o.used_minor = coalesce(g.granted_minor, 0)
        FROM (SELECT id, sum(used_minor) AS used_minor FROM outages GROUP BY id) o
        FULL JOIN (
            SELECT (grants.value ->> 'outage_id')::uuid AS id, sum((asks.value ->> 'amount_minor')::bigint)
                FILTER (WHERE grants.value ->> 'rule' = 'within_ceilings') AS granted_minor
            FROM journal j, jsonb_array_elements(j.command::jsonb -> 'asks') WITH ORDINALITY asks
            JOIN jsonb_array_elements(j.reply::jsonb -> 'grants') WITH ORDINALITY grants USING (ordinality)
            WHERE j.kind = 'grant_stand_ins' AND grants.value ? 'outage_id' GROUP BY 1) g ON g.id = o.id""",
    # What is used goes on from the grant before, or begins again where the policy has changed in between.
    "at every grant of an outage the budget was kept": """
        WITH granted AS (
            SELECT j.actor_id, j.seq, asks.ordinality, grants.value ->> 'outage_id' AS outage_id,
                (asks.value ->> 'amount_minor')::bigint AS amount_minor,
                (grants.value ->> 'used_minor')::bigint AS used_minor,
                (grants.value ->> 'limit_minor')::bigint AS limit_minor
            FROM journal j, jsonb_array_elements(j.command::jsonb -> 'asks') WITH ORDINALITY asks
            JOIN jsonb_array_elements(j.reply::jsonb -> 'grants') WITH ORDINALITY grants USING (ordinality)
            WHERE j.kind = 'grant_stand_ins' AND grants.value ->> 'rule' = 'within_ceilings')
        , ordered AS (
            SELECT *, lag(used_minor, 1, 0) OVER outage AS before_minor,
                lag(seq, 1, seq) OVER outage AS before
            FROM granted WINDOW outage AS (PARTITION BY actor_id, outage_id ORDER BY seq, ordinality))
        SELECT g.actor_id::text || '/' || g.seq, g.used_minor <= g.limit_minor AND (
            g.used_minor = g.before_minor + g.amount_minor
            OR (g.used_minor = g.amount_minor AND EXISTS (
                SELECT FROM journal p WHERE p.actor_id = g.actor_id AND p.kind = 'set_stand_in_policy'
                    AND p.seq > g.before AND p.seq < g.seq)))
        FROM ordered g""",
    "no more was approved in an outage than was used of its budgets": """
        SELECT coalesce(o.id, s.outage_id), coalesce(s.exposure_minor, 0) <= coalesce(o.used_minor, 0)
        FROM (SELECT id, currency, sum(used_minor) AS used_minor FROM outages GROUP BY id, currency) o
        FULL JOIN (
            SELECT outage_id, currency, sum(exposure_minor) AS exposure_minor FROM stand_ins
            WHERE outage_id IS NOT NULL OR exposure_minor > 0 GROUP BY outage_id, currency
        ) s ON s.outage_id = o.id AND s.currency = o.currency""",
    "an approval in stand-in was inside the budget in force": """
        SELECT id, exposure_minor > 0 AND exposure_minor <= budget_used_minor
            AND budget_used_minor <= budget_limit_minor
        FROM stand_ins WHERE decision = 'approved'""",
    "a programme knows its open outage, and has no other": """
        SELECT coalesce(p.id, o.programme_id), o.id::text = p.outage ->> 'id'
            AND o.period = coalesce((p.outage ->> 'period')::integer, 1)
            AND o.used_minor = coalesce((p.outage ->> 'used_minor')::bigint, 0)
        FROM (SELECT id, outage::jsonb AS outage FROM programmes WHERE outage IS NOT NULL) p
        FULL JOIN (SELECT * FROM outages WHERE ended_at IS NULL) o ON o.programme_id = p.id""",
    "each outage that ended has one authorization.stip_outage.finished": f"""
        WITH ended AS (
            SELECT id, programme_id, max(ended_at) AS ended_at FROM outages
            GROUP BY id, programme_id HAVING bool_and(ended_at IS NOT NULL))
        , ends AS (
            SELECT (command::jsonb ->> 'outage_id')::uuid AS outage_id, (command::jsonb ->> 'id')::uuid AS id
            FROM journal WHERE kind = 'end_outage')
        , told AS (
            SELECT id, data::jsonb ->> 'programme_id' AS programme_id FROM events
            WHERE type = 'authorization.stip_outage.finished')
        SELECT coalesce(o.id, c.outage_id, t.id), count(*) OVER (PARTITION BY o.id) = 1 AND c.id IS NOT NULL
            AND (t.programme_id = o.programme_id::text
                OR (t.id IS NULL AND o.ended_at < now() - interval '{EVENT_RETENTION_DAYS} days'))
        FROM ended o
        FULL JOIN (SELECT *, {_EVENT_OF_COMMAND} AS event_id FROM ends) c ON c.outage_id = o.id
        FULL JOIN told t ON t.id = c.event_id""",
    "each decision in stand-in is in the report, which says the same": f"""
        WITH decided AS (
            SELECT (command::jsonb ->> 'id')::uuid AS id, actor_id, authorization_id, recorded_at,
                command::jsonb AS command, decision::jsonb AS decision
            FROM journal WHERE kind IN ('authorize', 'increment') AND decision::jsonb ? 'stand_in')
        SELECT coalesce(s.id, d.stand_in_id), (s.card_id, s.authorization_id, s.decided_at)
                = (d.actor_id, d.authorization_id, d.recorded_at)
            AND (s.decision, s.response_code) = (d.decision ->> 'decision', d.decision ->> 'response_code')
            AND s.rule = d.decision #>> '{{stand_in,rule}}'
            AND s.trigger = d.decision #>> '{{stand_in,trigger}}'
            AND s.exposure_minor = (d.decision #>> '{{stand_in,exposure_minor}}')::bigint
            AND s.exposure_minor = (d.decision ->> 'approved_minor')::bigint
            AND s.outage_id::text IS NOT DISTINCT FROM d.decision #>> '{{stand_in,outage_id}}'
            AND (s.outage_id IS NULL OR EXISTS (
                SELECT FROM outages o WHERE o.id = s.outage_id AND o.programme_id = s.programme_id))
            AND (s.amount_minor::text, s.currency, s.mcc)
                = (d.command ->> 'amount_minor', d.command ->> 'currency', d.command ->> 'mcc')
            AND (s.stan, s.rrn) = (d.command #>> '{{wire,stan}}', d.command #>> '{{wire,rrn}}')
        FROM stand_ins s
        FULL JOIN (SELECT *, {_STAND_IN_OF_COMMAND} AS stand_in_id FROM decided) d ON d.stand_in_id = s.id""",
    "what is consumed of a declared balance is the exposure since": """
        SELECT b.card_id, b.consumed_minor = coalesce((
            SELECT sum((decision::jsonb #>> '{stand_in,exposure_minor}')::bigint) FROM journal
            WHERE actor_id = b.card_id AND kind IN ('authorize', 'increment') AND seq > (
                SELECT max(seq) FROM journal WHERE actor_id = b.card_id AND kind = 'declare_balance')), 0)
        FROM declared_balances b""",
    "a case has custody of what its tokens name, and of nothing else": """
        SELECT k.id, k.tokens::jsonb = coalesce((
            SELECT jsonb_object_agg(v.field, v.token)
            FROM kyc_values v JOIN kyc_data_keys d USING (check_id, purpose)
            WHERE v.check_id = k.id AND d.wrapped IS NOT NULL), '{}')
        FROM kyc_checks k""",
    # What has just run out is shown a moment later.
    "a cardholder shows what their checks say": """
        SELECT h.id, coalesce(k.due, false) OR h.kyc_state IS NOT DISTINCT FROM
            CASE k.verdict WHEN 'passed' THEN k.verdict ELSE k.newest END
        FROM cardholders h LEFT JOIN (
            SELECT cardholder_id, (array_agg(state ORDER BY id DESC))[1] AS newest,
                (array_agg(state ORDER BY id DESC)
                    FILTER (WHERE state IN ('passed', 'failed')))[1] AS verdict,
                bool_or(state IN ('pending', 'passed') AND expires_at <= now()) AS due
            FROM kyc_checks GROUP BY cardholder_id) k ON k.cardholder_id = h.id""",
    "the id space has 256 shards": "SELECT 'shards', count(*) = 256 FROM shards",
}


async def audit(dsn: str) -> list[Finding]:
    """Check every promise on one snapshot of the database at ``dsn``. Raises AuditError when it cannot be
    read."""
    try:
        async with _snapshot(dsn) as connection:
            return await findings(connection)
    except (OSError, TimeoutError, asyncpg.InterfaceError) as failure:
        raise AuditError(f"the database cannot be reached: {type(failure).__name__}") from None
    except asyncpg.PostgresError as failure:
        raise AuditError(f"the database cannot be read: {str(failure).splitlines()[0]}") from None


async def findings(connection: Connection) -> list[Finding]:
    """Check every promise inside the transaction that ``connection`` is in."""
    found = [await _check(connection, promise, sql) for promise, sql in PROMISES.items()]
    return [*found, await _decide_again(connection), *await _live_again(connection)]


@asynccontextmanager
async def _snapshot(dsn: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(dsn, timeout=10, server_settings={"jit": "off"})
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            yield connection
    finally:
        await connection.close(timeout=10)


async def _check(connection: Connection, promise: str, sql: str) -> Finding:
    row = await connection.fetchrow(
        f"WITH facts (subject, holds) AS ({sql})"
        " SELECT count(*) AS subjects, count(*) FILTER (WHERE holds IS NOT TRUE) AS broken,"
        f" (array_agg(subject::text) FILTER (WHERE holds IS NOT TRUE))[1:{EXAMPLES_MAX}] AS examples"
        " FROM facts"
    )
    assert row is not None
    return Finding(promise, row["subjects"], row["broken"], tuple(row["examples"] or ()))


async def _decide_again(connection: Connection) -> Finding:
    decisions = 0
    different: list[str] = []
    rows = connection.cursor(
        "SELECT command, inputs, decision FROM journal WHERE kind IN ('authorize', 'increment')",
        prefetch=REPLAY_FETCH,
    )
    async for row in rows:
        decisions += 1
        command = _command(row["command"])
        if _encode(authorize(command, _inputs(row["inputs"]))) != row["decision"].encode():
            different.append(command.id)
    return Finding(_REPEATABLE, decisions, len(different), tuple(different[:EXAMPLES_MAX]))


async def _live_again(connection: Connection) -> tuple[Finding, Finding]:
    commands, lives = 0, 0
    different: list[str] = []
    elsewhere: list[str] = []
    async for life in lived_again(connection):
        commands += life.commands
        lives += 1
        if life.differs_at is not None:
            different.append(f"{life.card_id}/{life.differs_at}")
        elif not await stands(connection, life):
            elsewhere.append(life.card_id)
    return (
        Finding(_LIVED_AGAIN, commands, len(different), tuple(different[:EXAMPLES_MAX])),
        Finding(_STANDING, lives, len(elsewhere), tuple(elsewhere[:EXAMPLES_MAX])),
    )
