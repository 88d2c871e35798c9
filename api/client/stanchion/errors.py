"""Everything that the client raises.

StanchionError
├── ProblemError              the API has answered with a problem body
│   ├── InvalidRequestError       400
│   ├── AuthenticationError       401
│   ├── PermissionDeniedError     403
│   ├── NotFoundError             404
│   ├── ConflictError             409
│   ├── RateLimitedError          429
│   └── ServerFaultError          500 and above
├── NoAnswerError             no usable answer; whether the request had an effect is not known
├── NotDecidedError           a simulation has had no decision in time
└── SignatureError            a webhook delivery is not to be believed
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


class StanchionError(Exception):
    """Base of all. The message is one line and holds no secret."""


@dataclass(frozen=True)
class FieldError:
    """One broken rule of a request."""

    pointer: str
    """JSON pointer into the body, or to the query parameter."""
    code: str
    """Stable, such as ``missing`` or ``format``."""
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
    """As in ``X-Request-Id``: tell it to whoever runs the installation."""
    retry_after: float | None = None
    """Seconds, where the API asks for a pause."""
    body: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        # What pickling calls the class with; the rest travels as attributes.
        super().__init__(self.status, self.slug, self.title)

    def __str__(self) -> str:
        fields = "".join(f"; {each.pointer}: {each.detail}" for each in self.errors)
        return f"{self.status} {self.slug}: {self.detail or self.title}{fields}"


class InvalidRequestError(ProblemError):
    """400: the request is not valid; ``errors`` says where."""


class AuthenticationError(ProblemError):
    """401: the credentials are not accepted."""


class PermissionDeniedError(ProblemError):
    """403: the client may not do this, or not in its mode."""


class NotFoundError(ProblemError):
    """404: nothing of that id can be seen by this client."""


class ConflictError(ProblemError):
    """409: the state of things forbids it, or the idempotency key has been used for something else."""


class RateLimitedError(ProblemError):
    """429: too many requests, also after the pauses that were asked for."""


class ServerFaultError(ProblemError):
    """500 and above, also after the retries. Ask again later under the same idempotency key."""


class NoAnswerError(StanchionError):
    """No usable answer has arrived. ``idempotency_key`` is what the request was sent under: sending it again
    under this key cannot have a second effect."""

    def __init__(self, message: str, idempotency_key: str | None) -> None:
        super().__init__(message)
        self.idempotency_key = idempotency_key


class NotDecidedError(StanchionError):
    """A simulation has not been decided in the time it was waited for."""


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
    """The error for an answer of 400 and above, whoever on the way has given it."""
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
    """The pause that a ``Retry-After`` header asks for, where it is one in seconds."""
    return float(retry_after) if retry_after and retry_after.isascii() and retry_after.isdecimal() else None
