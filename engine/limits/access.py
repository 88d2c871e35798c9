"""Tokens, clients, idempotency keys and quotas."""

from __future__ import annotations

from typing import Final

OAUTH_FORM_FIELDS_MAX: Final = 20
"""Fields of a token request's form."""
SECRET_BYTES: Final = 32
"""Random bytes of a secret that is shown once: client secrets, access and capture tokens, sessions, decision
secrets."""
QUOTA_RECOUNT_SECONDS: Final = 60.0
"""Age of a tenant's count of objects at which it is read from the database again."""
QUOTA_TENANTS_COUNTED_MAX: Final = 20_000
"""Counts cached in one API server."""
IDEMPOTENCY_KEY_CHARS_MAX: Final = 255
"""Length of an idempotency key."""
IDEMPOTENCY_RETENTION_HOURS: Final = 24
"""Lifetime of an idempotency key and its stored answer."""
IDEMPOTENCY_LEASE_SECONDS: Final = 10
"""Time after which a repetition takes over a request whose API server has stored no answer under its key."""
TOKEN_SECONDS: Final = 3_600
"""Lifetime of an access token."""
TOKEN_CACHE_SECONDS: Final = 1
"""A revoked token is refused everywhere within this time."""
TOKENS_CACHED_MAX: Final = 10_000
"""Tokens in the cache of one API server."""
TOKEN_FAILURES_PER_MINUTE: Final = 30
"""Default of a setting: failed authentications of one client id."""
TOKEN_FAILURES_PER_ADDRESS: Final = 10
"""Multiple of that limit for one address, which many clients may share."""
CLIENTS_MAX: Final = 100
"""Active API clients of a tenant in one mode."""
CLIENT_SECRET_OVERLAP_HOURS_MAX: Final = 168
"""Longest time that the previous secret of a client works after a rotation."""
