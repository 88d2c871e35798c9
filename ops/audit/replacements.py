"""Promises of replaced cards, and of sessions that show a card number."""

from __future__ import annotations

from typing import Final

# The continued state of a replacement: the first command of its journal has it. Defaults are not stored.
CONTINUED: Final = """
    SELECT r.replacement_id, r.card_id,
        (j.command::jsonb #>> '{continues,card_id}')::uuid AS continued_card_id,
        coalesce(j.command::jsonb #>> '{continues,day}', '') AS day,
        coalesce((j.command::jsonb #>> '{continues,day_count}')::bigint, 0) AS day_count,
        coalesce((j.command::jsonb #>> '{continues,day_amount_minor}')::bigint, 0) AS day_amount_minor,
        coalesce((j.command::jsonb #>> '{continues,consumed_minor}')::bigint, 0) AS consumed_minor
    FROM card_replacements r
    LEFT JOIN journal j ON j.actor_id = r.replacement_id AND j.seq = 1 AND j.kind = 'create_card'
"""

REPLACEMENTS: Final[dict[str, str]] = {
    "each executed replacement links its card with one replacement": """
        SELECT coalesce(r.card_id, j.actor_id), r.replacement_id = (j.command::jsonb ->> 'id')::uuid
            AND r.reason = j.command::jsonb ->> 'reason'
        FROM card_replacements r
        FULL JOIN (SELECT * FROM journal WHERE kind = 'replace_card') j ON j.actor_id = r.card_id""",
    "a replaced card has ended, and its replacement has its account": """
        SELECT r.card_id,
            old.state = CASE WHEN r.reason IN ('lost', 'stolen') THEN r.reason ELSE 'terminated' END
            AND (old.account_id, old.tenant_id, old.live, old.programme_id, old.cardholder_id)
                IS NOT DISTINCT FROM
                (new.account_id, new.tenant_id, new.live, new.programme_id, new.cardholder_id)
            AND get_byte(uuid_send(old.id), 15) = get_byte(uuid_send(new.id), 15)
            AND NOT EXISTS (
                SELECT FROM journal j JOIN transactions t ON t.card_id = j.actor_id AND t.seq = j.seq
                WHERE j.actor_id = old.id AND j.kind = 'authorize'
                    AND t.kind = 'purchase' AND t.decline_reason IS NULL
                    AND j.seq > (SELECT seq FROM journal WHERE actor_id = old.id AND kind = 'replace_card'))
        FROM card_replacements r LEFT JOIN cards old ON old.id = r.card_id
        LEFT JOIN cards new ON new.id = r.replacement_id""",
    # Follow-ups of the old card may change its counters after the replacement.
    "a replacement continues the counters of its card": f"""
        SELECT n.replacement_id, n.continued_card_id = n.card_id AND (
            (n.day, n.day_count, n.day_amount_minor) = (u.day, u.day_count, u.day_amount_minor)
            OR u.seq > (SELECT seq FROM journal WHERE actor_id = n.card_id AND kind = 'replace_card'))
        FROM ({CONTINUED}) n LEFT JOIN card_usage u ON u.card_id = n.card_id""",
    "a card number is shown once for each session, and each view is in the custody log": """
        SELECT coalesce(s.id, l.session_id), coalesce(l.viewed, 0) <= 1
            AND (s.id IS NULL OR (l.opened = 1 AND (s.viewed_at IS NOT NULL) = (l.viewed = 1)))
        FROM reveal_sessions s FULL JOIN (
            SELECT session_id, count(*) FILTER (WHERE act = 'viewed') AS viewed,
                count(*) FILTER (WHERE act = 'opened') AS opened
            FROM custody_log GROUP BY session_id) l ON l.session_id = s.id""",
}
