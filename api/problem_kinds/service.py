"""Limits of the service, and its own faults."""

from __future__ import annotations

from typing import Final

from api.problem_kinds.kind import Kind

KINDS: Final = (
    Kind(
        "reveal-session-used",
        410,
        "The link was already used",
        "A session shows a card once, and this one has shown it.",
        "Create another session.",
    ),
    Kind(
        "reveal-session-expired",
        410,
        "The link has expired",
        "A session shows a card within five minutes of its creation.",
        "Create another session.",
    ),
    # --- limits ---
    Kind(
        "content-too-large",
        413,
        "The body is too large",
        "A request body has at most 64 KB, and a picture of the capture page at most 4 MB.",
        "Send a smaller body.",
    ),
    Kind(
        "unsupported-media-type",
        415,
        "The media type is not supported",
        "A body must be JSON in UTF-8, without content coding.",
        "Send Content-Type: application/json.",
    ),
    Kind(
        "request-head-too-large",
        431,
        "The head of the request is too large",
        "The request line and the headers together may have at most 32 KB.",
        "Send fewer or shorter headers.",
    ),
    Kind(
        "rate-limited",
        429,
        "Too many requests",
        "The client sent more requests, or failed to authenticate more often, than its limit allows, or has "
        "too many open connections.",
        "Wait for the time in Retry-After, then send fewer requests a second over fewer connections.",
    ),
    Kind(
        "quota-of-day-reached",
        429,
        "The tenant's daily quota is used up",
        "The installation limits the number and the size of the answers that a tenant stores under "
        "idempotency keys in 24 hours. Reads and simulated spends do not count.",
        "Wait for the time in Retry-After, or ask the operator for a higher quota (STANCHION_QUOTA_…).",
    ),
    # --- faults ---
    Kind(
        "internal-error",
        500,
        "The service has an internal error",
        "The request met a fault in the service. It may have had an effect.",
        "Repeat it with the same Idempotency-Key; if the error persists, report the value of X-Request-Id.",
    ),
    Kind(
        "dependency-unavailable",
        500,
        "A part of the service is unavailable",
        "A component that the operation needs does not answer at the moment. The request may have had an "
        "effect; no approval exists that is not recorded.",
        "Repeat it with the same Idempotency-Key after the time in Retry-After.",
    ),
)
