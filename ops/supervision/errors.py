"""The error that ends an installation."""

from __future__ import annotations


class UpError(Exception):
    """The installation cannot start or continue. The message is one line."""
