-- Ownership -------------------------------------------------------------------------------------------------------------------------

CREATE TABLE hosts (
    incarnation text PRIMARY KEY,
    started_at  timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
COMMENT ON TABLE hosts IS 'One row for each life of a shard host. Its commits lock the row FOR SHARE, a take-over of its shards FOR UPDATE.';

CREATE TABLE shards (
    shard smallint PRIMARY KEY CHECK (shard BETWEEN 0 AND 255),
    epoch bigint   NOT NULL DEFAULT 0,
    host  text     REFERENCES hosts
) WITH (fillfactor = 50);
COMMENT ON TABLE shards IS 'Who may commit for a shard: only the host that holds its newest epoch.';
INSERT INTO shards (shard) SELECT generate_series(0, 255);

-- Journal ---------------------------------------------------------------------------------------------------------------------------

CREATE TABLE journal (
    actor_id    uuid        NOT NULL,
    seq         bigint      NOT NULL CHECK (seq > 0),
    epoch       bigint      NOT NULL,
    command_key bytea       NOT NULL,
    fingerprint bytea,
    kind        text        NOT NULL,
    command     text        NOT NULL,
    inputs      text,
    decision    text,
    reply       text        NOT NULL,
    recorded_at timestamptz NOT NULL,
    authorization_id uuid,
    PRIMARY KEY (actor_id, seq)
);
CREATE INDEX journal_of_authorization ON journal (authorization_id) WHERE kind <> 'authorize';
CREATE UNIQUE INDEX journal_command_key ON journal (command_key);
COMMENT ON TABLE journal IS 'Every command that had an effect: seq is gap-free for each card or programme; a command key is executed once. The JSON columns are kept as exact text.';

-- Tenants and callers ---------------------------------------------------------------------------------------------------------------

CREATE TABLE tenants (
    id         uuid PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE clients (
    id            uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL REFERENCES tenants,
    client_id     text NOT NULL UNIQUE,
    secret_digest bytea NOT NULL,
    mode          text NOT NULL CHECK (mode IN ('test', 'live')),
    role          text NOT NULL CHECK (role IN ('user', 'admin')),
    scopes        text[] NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    revoked_at    timestamptz
);

CREATE TABLE access_tokens (
    token_digest bytea PRIMARY KEY,
    client       uuid NOT NULL REFERENCES clients,
    scopes       text[] NOT NULL,
    expires_at   timestamptz NOT NULL,
    revoked_at   timestamptz
);
CREATE INDEX access_tokens_expiry ON access_tokens (expires_at);

CREATE TABLE idempotency (
    key_digest  bytea PRIMARY KEY,
    fingerprint bytea NOT NULL,
    status      smallint NOT NULL,
    body        bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX idempotency_age ON idempotency (created_at);
COMMENT ON COLUMN idempotency.body IS 'The stored response, sealed: responses can carry secrets and personal data.';

-- Programmes (written by their owner) -----------------------------------------------------------------------------------------------

CREATE TABLE programmes (
    id                     uuid PRIMARY KEY,
    tenant_id              uuid NOT NULL REFERENCES tenants,
    live                   boolean NOT NULL,
    version                bigint NOT NULL,
    seq                    bigint NOT NULL,
    config                 text NOT NULL,
    decision_secret_sealed bytea
);
CREATE INDEX programmes_of_tenant ON programmes (tenant_id, live, id);
COMMENT ON COLUMN programmes.config IS 'JSON of engine.programme.ProgrammeConfig.';

-- Products and people (written by the API) ------------------------------------------------------------------------------------------

CREATE TABLE card_products (
    id               uuid PRIMARY KEY,
    tenant_id        uuid NOT NULL REFERENCES tenants,
    live             boolean NOT NULL,
    programme_id     uuid NOT NULL REFERENCES programmes,
    name             text NOT NULL,
    network          text NOT NULL,
    currency         text NOT NULL,
    form_factor      text NOT NULL,
    iin              text NOT NULL,
    control_defaults text NOT NULL,
    kyc_flow         text,
    status           text NOT NULL,
    created_at       timestamptz NOT NULL
);
CREATE INDEX card_products_of_tenant ON card_products (tenant_id, live, id);

CREATE TABLE cardholders (
    id            uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL REFERENCES tenants,
    live          boolean NOT NULL,
    programme_id  uuid NOT NULL REFERENCES programmes,
    given_name    text NOT NULL,
    family_name   text NOT NULL,
    email         text NOT NULL,
    phone         text,
    date_of_birth date,
    address       text,
    external_ref  text,
    status        text NOT NULL,
    kyc_state     text,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL
);
CREATE INDEX cardholders_of_tenant ON cardholders (tenant_id, live, id);

CREATE TABLE pans (
    digest  bytea PRIMARY KEY,
    card_id uuid NOT NULL UNIQUE,
    sealed  bytea NOT NULL
);
COMMENT ON TABLE pans IS 'Custody of card numbers: found by keyed hash, stored sealed. Reserved before the card is created.';

-- Accounts, cards, holds, transactions (written by their owner) ---------------------------------------------------------------------

CREATE TABLE accounts (
    id           uuid PRIMARY KEY,
    tenant_id    uuid NOT NULL,
    live         boolean NOT NULL,
    programme_id uuid NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('card', 'funding_source', 'settlement')),
    currency     text NOT NULL,
    posted_minor bigint NOT NULL DEFAULT 0,
    held_minor   bigint NOT NULL DEFAULT 0 CHECK (held_minor >= 0),
    version      bigint NOT NULL
) WITH (fillfactor = 70);
COMMENT ON TABLE accounts IS 'Balances of card accounts. Those of funding sources and settlement accounts are the sums of their entries: they would be hot rows.';

CREATE TABLE cards (
    id              uuid PRIMARY KEY,
    tenant_id       uuid NOT NULL,
    live            boolean NOT NULL,
    programme_id    uuid NOT NULL,
    card_product_id uuid NOT NULL,
    cardholder_id   uuid NOT NULL,
    account_id      uuid,
    network         text NOT NULL,
    currency        text NOT NULL,
    iin             text NOT NULL,
    last4           text NOT NULL,
    pan_ref         text NOT NULL,
    exp_month       smallint NOT NULL,
    exp_year        smallint NOT NULL,
    cvk_generation  text NOT NULL,
    state           text NOT NULL,
    state_reason    text,
    controls        text NOT NULL,
    cardholder_active boolean NOT NULL DEFAULT true,
    created_at      timestamptz NOT NULL
);
CREATE INDEX cards_of_tenant ON cards (tenant_id, live, id);
CREATE INDEX cards_of_cardholder ON cards (cardholder_id, id);
CREATE INDEX cards_of_programme ON cards (programme_id, id);
CREATE INDEX cards_of_account ON cards (account_id);

CREATE TABLE card_usage (
    card_id          uuid PRIMARY KEY,
    seq              bigint NOT NULL,
    day              text NOT NULL,
    day_count        bigint NOT NULL,
    day_amount_minor bigint NOT NULL,
    cvv2_failures    smallint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
COMMENT ON TABLE card_usage IS 'The changing part of a card, narrow and without secondary indexes so that its updates stay cheap.';

CREATE TABLE declared_balances (
    card_id        uuid PRIMARY KEY,
    balance_minor  bigint NOT NULL CHECK (balance_minor >= 0),
    consumed_minor bigint NOT NULL CHECK (consumed_minor >= 0),
    declared_at    timestamptz NOT NULL
) WITH (fillfactor = 70);
COMMENT ON TABLE declared_balances IS 'What a programme says a card may spend in stand-in, and what stand-in approvals have consumed of it.';

CREATE TABLE tombstones (
    card_id     uuid NOT NULL,
    reference   text NOT NULL,
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (card_id, reference)
);
COMMENT ON TABLE tombstones IS 'Reversals that came before their originals: what is approved later under such a reference is never left held.';

CREATE TABLE holds (
    id               uuid PRIMARY KEY,
    account_id       uuid NOT NULL,
    card_id          uuid NOT NULL,
    authorization_id uuid NOT NULL,
    amount_minor     bigint NOT NULL CHECK (amount_minor >= 0),
    state            text NOT NULL CHECK (state IN ('held', 'captured', 'released', 'lapsed')),
    expires_at       timestamptz NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX holds_open ON holds (account_id) WHERE state = 'held';
CREATE INDEX holds_due ON holds (expires_at) WHERE state = 'held';

CREATE TABLE transactions (
    id               uuid PRIMARY KEY,
    tenant_id        uuid NOT NULL,
    live             boolean NOT NULL,
    card_id          uuid NOT NULL,
    cardholder_id    uuid NOT NULL,
    programme_id     uuid NOT NULL,
    seq              bigint NOT NULL,
    kind             text NOT NULL CHECK (kind IN ('purchase', 'refund', 'force_post', 'verification')),
    status           text NOT NULL,
    hold_id          uuid,
    currency         text NOT NULL,
    requested_minor  bigint NOT NULL,
    approved_minor   bigint NOT NULL,
    held_minor       bigint NOT NULL,
    cleared_minor    bigint NOT NULL,
    reversed_minor   bigint NOT NULL,
    decline_reason   text,
    created_at       timestamptz NOT NULL,
    updated_at       timestamptz NOT NULL,
    network_txn_id   text,
    day              text NOT NULL,
    remainder_minor  bigint NOT NULL,
    closed           text CHECK (closed IN ('captured', 'released'))
) WITH (fillfactor = 80);
CREATE INDEX transactions_of_network ON transactions (network_txn_id, card_id) WHERE network_txn_id IS NOT NULL;
CREATE INDEX transactions_of_tenant ON transactions (tenant_id, live, id);
CREATE INDEX transactions_of_card ON transactions (card_id, id);
COMMENT ON COLUMN transactions.remainder_minor IS 'What is held, or was when the hold lapsed and has not been cleared since.';
COMMENT ON COLUMN transactions.seq IS 'The journal row (card_id, seq) that holds the request, the decision and its trace.';

CREATE TABLE ledger_entries (
    id               uuid PRIMARY KEY,
    transfer_id      uuid NOT NULL,
    account_id       uuid NOT NULL,
    direction        text NOT NULL CHECK (direction IN ('debit', 'credit')),
    amount_minor     bigint NOT NULL CHECK (amount_minor > 0),
    currency         text NOT NULL,
    authorization_id uuid,
    occurred_at      timestamptz NOT NULL
);
CREATE INDEX ledger_entries_of_account ON ledger_entries (account_id, id);
COMMENT ON TABLE ledger_entries IS 'Double entry, append-only: the debits and credits of a transfer are equal.';

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END $$;
CREATE TRIGGER ledger_entries_append_only BEFORE UPDATE OR DELETE ON ledger_entries
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Events ----------------------------------------------------------------------------------------------------------------------------

CREATE TABLE events (
    id         uuid NOT NULL,
    tenant_id  uuid NOT NULL,
    live       boolean NOT NULL,
    type       text NOT NULL,
    created_at timestamptz NOT NULL,
    data       text NOT NULL,
    txid       xid8 NOT NULL DEFAULT pg_current_xact_id(),
    PRIMARY KEY (tenant_id, live, id)
);
CREATE INDEX events_txid ON events (txid);
COMMENT ON TABLE events IS 'The outbox and the event log: a row is written in the transaction of its cause. data is the exact JSON that receivers get.';

-- Simulated network -----------------------------------------------------------------------------------------------------------------

CREATE TABLE stan_blocks (
    acquirer_id text PRIMARY KEY,
    next_stan   bigint NOT NULL
);
COMMENT ON TABLE stan_blocks IS 'System trace audit numbers, taken in blocks; the number on the wire is this modulo 999999, plus 1.';

CREATE TABLE simulations (
    id                   uuid PRIMARY KEY,
    parent_simulation_id uuid,
    tenant_id            uuid NOT NULL,
    operation            text NOT NULL CHECK (operation IN ('spend', 'increment', 'reversal', 'clearing')),
    state                text NOT NULL CHECK (state IN ('accepted', 'sent', 'failed', 'decided')),
    card_id              uuid NOT NULL,
    request              text NOT NULL,
    stan                 text,
    rrn                  text,
    network_txn_id       text,
    accepted_at          timestamptz NOT NULL,
    sent_at              timestamptz,
    decided_at           timestamptz,
    failed_at            timestamptz,
    response_code        text,
    approval_code        text,
    approved_minor       bigint,
    authorization_id     uuid,
    failure              text,
    CHECK ((stan IS NULL) = (rrn IS NULL))
) WITH (fillfactor = 80);
CREATE INDEX simulations_of_parent ON simulations (parent_simulation_id) WHERE parent_simulation_id IS NOT NULL;
COMMENT ON COLUMN simulations.request IS 'JSON of what the caller asked (never CVV2 or authentication values).';
