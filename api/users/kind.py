"""The kind of object of a user in the audit log. Operators' commands import it without the models of the
API."""

from __future__ import annotations

from typing import Final

KIND: Final = "user"
