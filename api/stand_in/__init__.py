"""Stand-in as its users meet it: the policy of a programme, and the report of what was decided under it."""
