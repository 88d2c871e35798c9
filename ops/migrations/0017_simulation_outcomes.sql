-- Outcomes of simulations that failed on the wire, and idempotency keys whose request asks another process.

-- failed_at stays null for a message that is answered, so its row's moves stay heap-only updates; a predicate on state would end that.
CREATE INDEX simulations_failed ON simulations (failed_at, id) WHERE failed_at IS NOT NULL AND stan IS NOT NULL;
COMMENT ON INDEX simulations_failed IS 'Messages without an answer in time: the simulated network looks their outcomes up in the journal.';

CREATE TABLE idempotency_claims (
    key_digest  bytea PRIMARY KEY,
    fingerprint bytea NOT NULL,
    claimed_at  timestamptz NOT NULL DEFAULT now(),
    lease_until timestamptz NOT NULL
);
COMMENT ON TABLE idempotency_claims IS 'Keys of requests that another process carries out, from before the call until the answer is stored in table idempotency.';
COMMENT ON COLUMN idempotency_claims.lease_until IS 'Until then a repetition is refused as in progress; later it takes the request over.';
