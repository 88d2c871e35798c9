"""Histories of client operations, and their checks against the journal."""
