-- Back-tests: recorded histories lived again under a change. Their tasks run in processes of their own; everything that they need to
-- go on after the end of any process is in these tables.

CREATE TABLE backtests (
    id               uuid PRIMARY KEY,
    tenant_id        uuid        NOT NULL REFERENCES tenants,
    live             boolean     NOT NULL,
    scope_type       text        NOT NULL CHECK (scope_type IN ('programme', 'card_product', 'card')),
    scope_id         uuid        NOT NULL,
    programme_id     uuid        NOT NULL REFERENCES programmes,
    currency         text        NOT NULL,
    from_at          timestamptz NOT NULL,
    to_at            timestamptz NOT NULL CHECK (to_at > from_at),
    shown_change     text        NOT NULL,
    plan             text        NOT NULL,
    state            text        NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
    failure          text,
    created_at       timestamptz NOT NULL,
    started_at       timestamptz,
    completed_at     timestamptz,
    attempt          integer     NOT NULL DEFAULT 0,
    lease_until      timestamptz,
    cards            bigint,
    result           text
) WITH (fillfactor = 50);
CREATE INDEX backtests_of_tenant ON backtests (tenant_id, live, id);
CREATE INDEX backtests_open ON backtests (id) WHERE state IN ('queued', 'running');
CREATE INDEX backtests_age ON backtests (created_at);
COMMENT ON COLUMN backtests.shown_change IS 'JSON of the change as it was requested.';
COMMENT ON COLUMN backtests.plan IS 'JSON of engine.backtests.plan.Plan.';
COMMENT ON COLUMN backtests.lease_until IS 'Until then the API server of the attempt leads it; later another one goes on.';
COMMENT ON COLUMN backtests.cards IS 'Cards in its ranges; NULL until the ranges are there.';
COMMENT ON COLUMN backtests.result IS 'JSON of engine.backtests.tally.Tally.';

CREATE TABLE backtest_ranges (
    backtest_id uuid    NOT NULL REFERENCES backtests ON DELETE CASCADE,
    number      integer NOT NULL,
    first_card  uuid    NOT NULL,
    last_card   uuid    NOT NULL,
    cards       integer NOT NULL,
    cards_done  integer NOT NULL DEFAULT 0,
    state       text    NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'done')),
    attempt     integer NOT NULL DEFAULT 0,
    lease_until timestamptz,
    result      text,
    PRIMARY KEY (backtest_id, number)
) WITH (fillfactor = 50);
COMMENT ON TABLE backtest_ranges IS 'Ranges of cards, ordered by their ids: the units of work of a back-test.';

CREATE TABLE backtest_flips (
    id               uuid        NOT NULL,
    backtest_id      uuid        NOT NULL REFERENCES backtests ON DELETE CASCADE,
    number           integer     NOT NULL,
    attempt          integer     NOT NULL,
    tenant_id        uuid        NOT NULL,
    live             boolean     NOT NULL,
    authorization_id uuid        NOT NULL,
    card_id          uuid        NOT NULL,
    decided_at       timestamptz NOT NULL,
    operation        text        NOT NULL,
    direction        text        NOT NULL,
    rule             text        NOT NULL,
    amount_minor     bigint      NOT NULL,
    currency         text        NOT NULL,
    mcc              text        NOT NULL,
    before           text        NOT NULL,
    after            text        NOT NULL,
    PRIMARY KEY (id, backtest_id, attempt)
);
CREATE INDEX backtest_flips_of_backtest ON backtest_flips (backtest_id, id);
CREATE INDEX backtest_flips_of_direction ON backtest_flips (backtest_id, direction, id);
COMMENT ON TABLE backtest_flips IS 'Decisions that the change turned: id is that of the command, before and after are the JSON of both decisions.';
COMMENT ON COLUMN backtest_flips.attempt IS 'The attempt at its range; only flips of the last one count.';
