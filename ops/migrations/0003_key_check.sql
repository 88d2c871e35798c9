CREATE TABLE key_check (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    sealed bytea NOT NULL,
    digest bytea NOT NULL
);
COMMENT ON TABLE key_check IS 'A constant sealed and digested under the master keys in use: a start with other keys is refused before anything is served.';
