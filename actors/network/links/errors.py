"""Failures of ``links.toml``."""

from __future__ import annotations

from actors.settings import SettingsError


class LinksError(SettingsError):
    """The links cannot be used. The message is one line that names file, line and field, without secrets."""
