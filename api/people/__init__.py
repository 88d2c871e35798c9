"""Cardholders as rows, and their personal data, sealed."""
