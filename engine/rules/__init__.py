"""Authorization rules: conditions of the issuer that decline a purchase (``ops/docs/RULES.md``)."""
