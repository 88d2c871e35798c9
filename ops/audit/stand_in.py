"""Promises of stand-in: budgets, outages, the report."""

from __future__ import annotations

from typing import Final

from engine.limits import EVENT_RETENTION_DAYS
from ops.audit.decided import EVENT_OF_COMMAND, STAND_IN_OF_COMMAND
from ops.audit.replacements import CONTINUED

STAND_IN: Final[dict[str, str]] = {
    "the used budget of an outage is the sum of its grants": """
        SELECT coalesce(o.id, g.id), o.used_minor = coalesce(g.granted_minor, 0)
        FROM (SELECT id, sum(used_minor) AS used_minor FROM outages GROUP BY id) o
        FULL JOIN (
            SELECT (grants.value ->> 'outage_id')::uuid AS id, sum((asks.value ->> 'amount_minor')::bigint)
                FILTER (WHERE grants.value ->> 'rule' = 'within_ceilings') AS granted_minor
            FROM journal j, jsonb_array_elements(j.command::jsonb -> 'asks') WITH ORDINALITY asks
            JOIN jsonb_array_elements(j.reply::jsonb -> 'grants') WITH ORDINALITY grants USING (ordinality)
            WHERE j.kind = 'grant_stand_ins' AND grants.value ? 'outage_id' GROUP BY 1) g ON g.id = o.id""",
    # The used amount continues from the previous grant, or starts again if the policy has changed in between.
    "no grant exceeds its outage's budget": """
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
    "stand-in approvals of an outage do not exceed its used budget": """
        SELECT coalesce(o.id, s.outage_id), coalesce(s.exposure_minor, 0) <= coalesce(o.used_minor, 0)
        FROM (SELECT id, currency, sum(used_minor) AS used_minor FROM outages GROUP BY id, currency) o
        FULL JOIN (
            SELECT outage_id, currency, sum(exposure_minor) AS exposure_minor FROM stand_ins
            WHERE outage_id IS NOT NULL OR exposure_minor > 0 GROUP BY outage_id, currency
        ) s ON s.outage_id = o.id AND s.currency = o.currency""",
    "each stand-in approval was within the budget in force": """
        SELECT id, exposure_minor > 0 AND exposure_minor <= budget_used_minor
            AND budget_used_minor <= budget_limit_minor
        FROM stand_ins WHERE decision = 'approved'""",
    "the open outage of a programme is the one that it references": """
        SELECT coalesce(p.id, o.programme_id), o.id::text = p.outage ->> 'id'
            AND o.period = coalesce((p.outage ->> 'period')::integer, 1)
            AND o.used_minor = coalesce((p.outage ->> 'used_minor')::bigint, 0)
        FROM (SELECT id, outage::jsonb AS outage FROM programmes WHERE outage IS NOT NULL) p
        FULL JOIN (SELECT * FROM outages WHERE ended_at IS NULL) o ON o.programme_id = p.id""",
    "each ended outage has one authorization.stip_outage.finished": f"""
        WITH ended AS (
            SELECT id, programme_id, max(ended_at) AS ended_at FROM outages
            GROUP BY id, programme_id HAVING bool_and(ended_at IS NOT NULL))
        , ends AS (
            SELECT (command::jsonb ->> 'outage_id')::uuid AS outage_id, (command::jsonb ->> 'id')::uuid AS id
            FROM journal WHERE kind = 'end_outage')
        , published AS (
            SELECT id, data::jsonb ->> 'programme_id' AS programme_id FROM events
            WHERE type = 'authorization.stip_outage.finished')
        SELECT coalesce(o.id, c.outage_id, t.id), count(*) OVER (PARTITION BY o.id) = 1 AND c.id IS NOT NULL
            AND (t.programme_id = o.programme_id::text
                OR (t.id IS NULL AND o.ended_at < now() - interval '{EVENT_RETENTION_DAYS} days'))
        FROM ended o
        FULL JOIN (SELECT *, {EVENT_OF_COMMAND} AS event_id FROM ends) c ON c.outage_id = o.id
        FULL JOIN published t ON t.id = c.event_id""",
    "each stand-in decision has an equal row in the report": f"""
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
        FULL JOIN (SELECT *, {STAND_IN_OF_COMMAND} AS stand_in_id FROM decided) d ON d.stand_in_id = s.id""",
    # A replacement continues the declared balance of its card, with the consumed part.
    "consumption of a declared balance equals the exposure since its declaration": f"""
        SELECT b.card_id, b.consumed_minor = coalesce((
            SELECT sum((decision::jsonb #>> '{{stand_in,exposure_minor}}')::bigint) FROM journal
            WHERE actor_id = b.card_id AND kind IN ('authorize', 'increment')
                AND seq > coalesce(d.seq, 1)), 0)
            + CASE WHEN d.seq IS NULL THEN n.consumed_minor ELSE 0 END
        FROM declared_balances b LEFT JOIN ({CONTINUED}) n ON n.replacement_id = b.card_id
        LEFT JOIN LATERAL (
            SELECT max(seq) AS seq FROM journal WHERE actor_id = b.card_id AND kind = 'declare_balance'
        ) d ON true""",
}
