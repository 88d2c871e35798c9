"""Programme actors: one programme's configuration (and, with delegated decisions, its outage and budget) in
memory."""
