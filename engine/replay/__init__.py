"""The state of cards and programmes, folded from their journal: for audits and back-tests."""
