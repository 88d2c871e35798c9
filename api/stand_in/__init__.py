"""Stand-in: the policy of a programme, and the report of the decisions made under it."""
