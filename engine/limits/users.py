"""People who sign in to the console: passwords, codes, links and OpenID Connect."""

from __future__ import annotations

from typing import Final

USERS_MAX: Final = 500
"""Users of a tenant, disabled ones included."""
PASSWORD_CHARS_MIN: Final = 12
PASSWORD_CHARS_MAX: Final = 256
"""Length of a user's password. The upper limit bounds the work of hashing."""
PASSWORD_HASHES_AT_ONCE: Final = 2
"""Passwords that an API server hashes at the same time; each takes 46 MiB and one core."""
SIGN_IN_FAILURES_PER_HOUR: Final = 60
"""Tries of a password an hour for one sign-in name, from all addresses, on each API server."""
OPENID_FLOW_SECONDS: Final = 600
"""Time to sign in at the OpenID Connect provider."""
OPENID_METADATA_SECONDS: Final = 3_600
"""How long the provider's metadata are kept."""
OPENID_REQUEST_SECONDS: Final = 10.0
"""Longest call of the provider."""
INVITATION_DAYS: Final = 7
"""Lifetime of an invitation, which works once."""
SIGN_IN_LINK_MINUTES: Final = 15
"""Lifetime of a sign-in link, which works once."""
ONE_TIME_CODE_SECONDS: Final = 300
"""Time to enter the one-time code after the password."""
ONE_TIME_CODE_FAILURES_MAX: Final = 5
"""Wrong one-time codes in a row, after which the user waits."""
ONE_TIME_CODE_PAUSE_MINUTES: Final = 15
"""How long the user then waits. With it, guessing a code takes years."""
RECOVERY_CODES: Final = 10
"""Recovery codes of a user; each works once."""
