"""Tests of a whole installation from outside, by its ports and commands."""
