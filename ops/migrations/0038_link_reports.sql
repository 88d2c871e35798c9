-- The states of links, as the edges report them.

CREATE TABLE link_reports (
    edge        text NOT NULL,
    name        text NOT NULL,
    live        boolean NOT NULL,
    status      jsonb NOT NULL,
    reported_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (edge, name)
);
COMMENT ON TABLE link_reports IS 'The state of each link at each edge, reported every few seconds; the API shows the fresh ones.';
