-- Changes of a cardholder's status that are not in force on every card yet, and cards that are being issued. Both are
-- finished by the request that began them, or by a sweeper.

CREATE TABLE cardholder_status_changes (
    cardholder_id uuid        PRIMARY KEY REFERENCES cardholders ON DELETE CASCADE,
    id            uuid        NOT NULL,
    status        text        NOT NULL CHECK (status IN ('active', 'blocked', 'closed')),
    resume_at     timestamptz NOT NULL
);
CREATE INDEX cardholder_status_changes_due ON cardholder_status_changes (resume_at);
COMMENT ON TABLE cardholder_status_changes IS 'At most one open change for each cardholder. id names the commands to its cards, so a repetition executes none of them twice.';

CREATE TABLE card_issues (
    card_id       uuid        PRIMARY KEY,
    cardholder_id uuid        NOT NULL REFERENCES cardholders ON DELETE CASCADE,
    resume_at     timestamptz NOT NULL
);
CREATE INDEX card_issues_of_cardholder ON card_issues (cardholder_id);
CREATE INDEX card_issues_due ON card_issues (resume_at);
COMMENT ON TABLE card_issues IS 'Cards between the reservation of their number and their release for use: a card declines until its cardholder is known to be active.';
