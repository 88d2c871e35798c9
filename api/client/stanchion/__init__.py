"""A Python client for Stanchion's API. It handles tokens, idempotency keys, retries, pages and problems.

>>> from stanchion import Client, money
>>> with Client.of_installation() as client:  # doctest: +SKIP
...     card = next(client.cards.list())
...     client.cards.load(card["id"], money("100.00", "EUR"))

``AsyncClient`` has the same methods for asyncio: await its calls, and iterate over lists with ``async for``.
"""

from stanchion.client import AsyncClient, Client
from stanchion.errors import (
    AuthenticationError,
    ConflictError,
    ContentError,
    FieldError,
    InvalidRequestError,
    NoAnswerError,
    NotDecidedError,
    NotFoundError,
    PermissionDeniedError,
    ProblemError,
    RateLimitedError,
    ServerFaultError,
    SignatureError,
    StanchionError,
)
from stanchion.records import Money
from stanchion.retries import RetryPolicy
from stanchion.signature import SIGNATURE_HEADER, verify_signature
from stanchion.version import __version__

__all__ = [
    "SIGNATURE_HEADER",
    "AsyncClient",
    "AuthenticationError",
    "Client",
    "ConflictError",
    "ContentError",
    "FieldError",
    "InvalidRequestError",
    "Money",
    "NoAnswerError",
    "NotDecidedError",
    "NotFoundError",
    "PermissionDeniedError",
    "ProblemError",
    "RateLimitedError",
    "RetryPolicy",
    "ServerFaultError",
    "SignatureError",
    "StanchionError",
    "__version__",
    "money",
    "verify_signature",
]


def money(amount: str, currency: str) -> Money:
    """A Money object. ``amount`` is a decimal string, because a float cannot represent every cent."""
    return {"amount": amount, "currency": currency}
