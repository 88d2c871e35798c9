"""Test mode: simulated spends, follow-ups and force posts over the ISO 8583 wire, and loads."""
