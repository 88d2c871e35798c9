"""Security headers of responses."""

from __future__ import annotations

from typing import Final

HSTS_SECONDS: Final = 365 * 86_400

SECURITY_HEADERS: Final[tuple[tuple[bytes, bytes], ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
"""Defaults for every response; API responses are data that browsers do not render."""

HSTS: Final = (b"strict-transport-security", b"max-age=%d" % HSTS_SECONDS)
"""For answers over TLS, this server's own or that of a trusted proxy."""

HTML_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'"
    )
}
"""For pages without scripts that carry their style sheet."""
