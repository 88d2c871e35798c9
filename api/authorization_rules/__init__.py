"""Authorization rules: their conditions, versions and states, and the reports of their matches."""
