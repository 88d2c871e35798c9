-- Loads and entries from before 0026. The triggers of 0026 are in force, so writers are not locked out while this file reads.

INSERT INTO transfers (
    id, tenant_id, live, programme_id, account_id, card_id, seq, kind, direction, amount_minor, currency, metadata, created_at
) SELECT
    transfer_of_command(j.command::jsonb), c.tenant_id, c.live, c.programme_id, c.account_id, c.id, j.seq, 'load', 'credit',
    (j.command::jsonb ->> 'amount_minor')::bigint, j.command::jsonb ->> 'currency', '{}', j.recorded_at
FROM journal j JOIN cards c ON c.id = j.actor_id WHERE j.kind = 'load'
ON CONFLICT (id) DO NOTHING;

-- One snapshot: all entries, without those that the trigger has counted.
INSERT INTO account_sums (account_id, shard, posted_minor, entries)
    SELECT e.account_id, -1, e.posted_minor - coalesce(s.posted_minor, 0), e.entries - coalesce(s.entries, 0)
    FROM (
        SELECT e.account_id, sum(CASE e.direction WHEN 'credit' THEN e.amount_minor ELSE -e.amount_minor END) AS posted_minor,
            count(*) AS entries
        FROM ledger_entries e JOIN accounts a ON a.id = e.account_id AND a.kind <> 'card' GROUP BY e.account_id) e
    LEFT JOIN (
        SELECT account_id, sum(posted_minor) AS posted_minor, sum(entries) AS entries FROM account_sums GROUP BY account_id) s
        USING (account_id)
    WHERE e.entries > coalesce(s.entries, 0);
