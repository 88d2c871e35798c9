"""What the service can take, and its own faults."""

from __future__ import annotations

from typing import Final

from api.problem_kinds.kind import Kind

KINDS: Final = (
    # --- what the service can take ---
    Kind(
        "content-too-large",
        413,
        "The body is too large",
        "A request body has at most 64 KB, and a picture of the capture page at most 4 MB.",
        "Send less.",
    ),
    Kind(
        "unsupported-media-type",
        415,
        "The body is of an unsupported kind",
        "Bodies are JSON in UTF-8, without content coding.",
        "Send Content-Type: application/json.",
    ),
    Kind(
        "request-head-too-large",
        431,
        "The head of the request is too large",
        "The request line and the headers together have at most 32 KB.",
        "Send fewer or shorter headers.",
    ),
    Kind(
        "rate-limited",
        429,
        "Too many requests",
        "The caller made more requests, or failed to authenticate more often, than the limit allows, or has "
        "too many connections open.",
        "Wait for the time in Retry-After, then go on more slowly and with fewer connections.",
    ),
    Kind(
        "quota-of-day-reached",
        429,
        "The tenant's quota of the day is used up",
        "The installation limits how many answers, and how many bytes of them, a tenant stores under "
        "idempotency keys in 24 hours. Reading, and simulations of spends, are not limited by it.",
        "Wait for the time in Retry-After, or ask the operator for a higher quota (STANCHION_QUOTA_…).",
    ),
    # --- faults ---
    Kind(
        "internal-error",
        500,
        "Something went wrong here",
        "The request met a fault of the service. Whether it had an effect is not certain.",
        "Repeat it with the same Idempotency-Key; if it persists, report the value of X-Request-Id.",
    ),
    Kind(
        "dependency-unavailable",
        500,
        "A part of the service is unavailable",
        "Something that the operation needs does not answer at the moment. Whether the request had an effect "
        "is not certain; nothing was approved that is not recorded.",
        "Repeat it with the same Idempotency-Key after the time in Retry-After.",
    ),
)
