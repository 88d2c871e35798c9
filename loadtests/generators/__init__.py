"""Load generators: they send authorizations and record when each answer arrived."""
