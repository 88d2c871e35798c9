-- Links to networks that operators have signed off.

CREATE TABLE link_sign_offs (
    name          text PRIMARY KEY,
    signed_off_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE link_sign_offs IS 'Links that operators have signed off; every edge drains them, and does not open them when it starts.';
