"""The client's exceptions.

StanchionError
├── ProblemError              the API answered with a problem body
│   ├── InvalidRequestError       400
│   ├── AuthenticationError       401
│   ├── PermissionDeniedError     403
│   ├── NotFoundError             404
│   ├── ConflictError             409
│   ├── RateLimitedError          429
│   └── ServerFaultError          500 and above
├── NoAnswerError             no usable answer; the request may have had an effect
├── NotDecidedError           a simulation was not decided in time
├── ContentError              the content of an export cannot be received
└── SignatureError            the signature of a webhook delivery is not valid
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


class StanchionError(Exception):
    """The base class. The message is one line and contains no secret."""


@dataclass(frozen=True)
class FieldError:
    """One broken rule of a request."""

    pointer: str
    """JSON pointer into the body, or to the query parameter."""
    code: str
    """A stable code, such as ``missing`` or ``format``."""
    detail: str


@dataclass(eq=False)
class ProblemError(StanchionError):
    """A problem body (RFC 9457). ``slug`` is the stable end of ``type``, such as ``insufficient-scope``."""

    status: int
    slug: str
    title: str
    detail: str = ""
    type: str = ""
    errors: tuple[FieldError, ...] = ()
    request_id: str = ""
    """The ``X-Request-Id``: give it to the operator of the installation."""
    retry_after: float | None = None
    """The pause in seconds that the API requested."""
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        # Pickling calls the class with these arguments and restores the other attributes.
        super().__init__(self.status, self.slug, self.title)

    def __str__(self) -> str:
        fields = "".join(f"; {each.pointer}: {each.detail}" for each in self.errors)
        return f"{self.status} {self.slug}: {self.detail or self.title}{fields}"


class InvalidRequestError(ProblemError):
    """400: the request is not valid; ``errors`` lists the members."""


class AuthenticationError(ProblemError):
    """401: the credentials are not accepted."""


class PermissionDeniedError(ProblemError):
    """403: the client lacks the permission, or the operation is not available in its mode."""


class NotFoundError(ProblemError):
    """404: the resource does not exist for this client."""


class ConflictError(ProblemError):
    """409: the resource's state forbids the operation, or the idempotency key belongs to another request."""


class RateLimitedError(ProblemError):
    """429: too many requests, even after the retries."""


class ServerFaultError(ProblemError):
    """500 and above, even after the retries. Repeat the request later under the same idempotency key."""


class NoAnswerError(StanchionError):
    """No usable answer arrived. ``idempotency_key`` is the request's key: repeating the request under it
    cannot have a second effect."""

    def __init__(self, message: str, idempotency_key: str | None) -> None:
        super().__init__(message)
        self.idempotency_key = idempotency_key


class NotDecidedError(StanchionError):
    """A simulation was not decided within the given time."""


class ContentError(StanchionError):
    """The content of an export does not exist, or differs from the export's."""


class SignatureError(StanchionError):
    """The signature of a delivery is missing, wrong, or too old."""


_BY_STATUS: Final[dict[int, type[ProblemError]]] = {
    400: InvalidRequestError,
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    429: RateLimitedError,
}


def problem_of(status: int, headers: Mapping[str, str], body: Any) -> ProblemError:
    """The error for a status of 400 and above, from the API or from a proxy."""
    content: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    kind = _BY_STATUS.get(status, ServerFaultError if status >= 500 else ProblemError)
    type_ = str(content.get("type", ""))
    return kind(
        status=status,
        slug=type_.rpartition("/")[2] or "no-problem-body",
        title=str(content.get("title", "The answer is not a problem body.")),
        detail=str(content.get("detail", "")),
        type=type_,
        errors=tuple(
            FieldError(str(each.get("pointer", "")), str(each.get("code", "")), str(each.get("detail", "")))
            for each in content.get("errors", ())
        ),
        request_id=headers.get("x-request-id", ""),
        retry_after=seconds_of(headers.get("retry-after")),
        body=content,
    )


def seconds_of(retry_after: str | None) -> float | None:
    """The seconds of a ``Retry-After`` header, or ``None`` if it has another form."""
    return float(retry_after) if retry_after and retry_after.isascii() and retry_after.isdecimal() else None
