-- Figures of the console's charts. An hour with millions of decisions is counted once, not each time that a page shows it.

CREATE TABLE console_activity (
    tenant_id    uuid        NOT NULL,
    live         boolean     NOT NULL,
    slot_at      timestamptz NOT NULL,
    measure      text        NOT NULL CHECK (measure IN ('approved', 'declined', 'stand_in', 'latency')),
    label        text        NOT NULL,
    number       bigint      NOT NULL,
    amount_minor bigint      NOT NULL,
    PRIMARY KEY (tenant_id, live, slot_at, measure, label)
);
COMMENT ON TABLE console_activity IS 'Decisions of a tenant in one mode, counted in slots of five minutes when the console first shows them. It can be emptied at any time together with console_activity_spans.';
COMMENT ON COLUMN console_activity.label IS 'approved: currency; declined: reason; stand_in: decision; latency: number of the bucket in api/console/activity/latency.py.';
COMMENT ON COLUMN console_activity.amount_minor IS 'Approved purchases, in the currency of the label; otherwise 0.';

CREATE TABLE console_activity_spans (
    tenant_id    uuid        NOT NULL,
    live         boolean     NOT NULL,
    counted_from timestamptz NOT NULL,
    counted_to   timestamptz NOT NULL CHECK (counted_to >= counted_from),
    PRIMARY KEY (tenant_id, live)
) WITH (fillfactor = 50);
COMMENT ON TABLE console_activity_spans IS 'The slots that console_activity has, without gaps: [counted_from, counted_to).';
