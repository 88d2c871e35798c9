"""Every way in which a request can be refused: one table, one exception, one body (RFC 9457).

``type`` is stable and leads to a page that says what the problem means and what to do. A body never repeats a
value of the request: whatever was rejected may be a card number or a secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from starlette.responses import Response

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"

# The outcome of these is not the outcome of the request: the same key may be tried again.
_NOT_STORED: Final = frozenset(
    {
        "idempotency-key-missing",
        "idempotency-key-invalid",
        "idempotency-key-reused",
        "idempotency-in-progress",
        "kyc-check-changed",
        # Names get addresses, and lose them.
        "target-refused",
    }
)
_STORED_STATUSES: Final = frozenset({400, 404, 409})


@dataclass(frozen=True)
class Kind:
    """One kind of problem: ``meaning`` says what happened, ``remedy`` what to do about it."""

    slug: str
    status: int
    title: str
    meaning: str
    remedy: str


_KINDS: Final = (
    # --- the request as such ---
    Kind(
        "malformed-request",
        400,
        "The request is not HTTP",
        "What arrived cannot be read as an HTTP request.",
        "Use an HTTP library.",
    ),
    Kind(
        "validation-failed",
        400,
        "The request is not valid",
        "The request is well-formed but some of its members are not what the operation takes. "
        "The member errors lists all of them: where (a JSON pointer), which rule (a stable code), and why.",
        "Correct every member that errors names. Unknown members are refused too: check their spelling.",
    ),
    Kind(
        "invalid-json",
        400,
        "The body is not acceptable JSON",
        "The body is not JSON in UTF-8 (RFC 8259), or holds what receivers read differently: duplicate "
        "names, NaN or infinite numbers, NUL characters, lone surrogates, or more than 16 levels.",
        "Send the output of a JSON library unchanged.",
    ),
    Kind(
        "invalid-cursor",
        400,
        "The cursor is unknown",
        "starting_after does not name a row of this list that the caller may see.",
        "Start again without it, and pass next_cursor of one page as starting_after of the next.",
    ),
    Kind(
        "idempotency-key-missing",
        400,
        "An Idempotency-Key is needed",
        "The operation changes something and must be safe to repeat, so it takes an Idempotency-Key header.",
        "Send a fresh random key with each new request, and the same key with each repetition of it.",
    ),
    Kind(
        "idempotency-key-invalid",
        400,
        "The Idempotency-Key cannot be used",
        "A key has 1 to 255 visible ASCII characters, and a request has one key.",
        "Use a UUID or another short random string.",
    ),
    Kind(
        "currency-mismatch",
        400,
        "The currency is not the right one",
        "The amount or currency is not in the currency of what it applies to; nothing is ever converted.",
        "Use the currency of the card, the account or the programme.",
    ),
    Kind(
        "invalid-request",
        400,
        "The token request is malformed",
        "The token request lacks a parameter, repeats one, or names its client in two ways "
        "(RFC 6749, section 5.2).",
        "Send grant_type, and the client's id and secret either in the body or by HTTP Basic.",
    ),
    Kind(
        "unsupported-grant-type",
        400,
        "The grant type is not supported",
        "Tokens are granted for client credentials only (RFC 6749, section 4.4).",
        "Send grant_type=client_credentials.",
    ),
    Kind(
        "invalid-scope",
        400,
        "The scope cannot be granted",
        "The scope is malformed, unknown, or more than the client has.",
        "Ask for scopes that the client has, separated by single spaces, or leave scope out to get them all.",
    ),
    Kind(
        "refund-simulation",
        400,
        "The simulation is a refund",
        "A refund posts at once and holds nothing, so there is nothing to raise or to give back.",
        "Name a simulation of the kind purchase.",
    ),
    Kind(
        "amount-exceeds-hold",
        400,
        "More than is still held",
        "A reversal cannot give back more than the authorization still holds.",
        "Read the transaction's held_amount, or leave the amount out to give all of it back.",
    ),
    # --- capture sessions ---
    Kind(
        "class-select-not-supported",
        400,
        "The session does not choose a document type",
        "Only sessions of the kind flow let the applicant choose; this one was made for a single step.",
        "Make a capture session of the kind flow.",
    ),
    Kind(
        "document-class-locked",
        400,
        "The document type is fixed",
        "A picture of the document is attached to the check, so its type cannot change any more.",
        "Go on with the type that was chosen.",
    ),
    Kind(
        "document-class-unavailable",
        400,
        "The document type cannot be processed",
        "This installation cannot process documents of that type.",
        "Choose one of the types that the session offers.",
    ),
    Kind(
        "document-class-not-accepted",
        400,
        "The programme does not accept the document type",
        "The programme's policy has not opted into documents of that type.",
        "Choose one of the types that the session offers, or add it to the programme's kyc_document_types.",
    ),
    Kind(
        "invalid-image",
        400,
        "The body is not a picture",
        "What was sent does not begin like a JPEG, PNG or WebP image, or not like the kind that it claims.",
        "Send the image file unchanged, with its own Content-Type.",
    ),
    Kind(
        "target-refused",
        400,
        "The address may not be called",
        "We are to call an address that is not a plain https address of the public internet, or whose host "
        "has no address at present. The code in errors says which: scheme, userinfo, fragment, host, port, "
        "malformed, unresolvable, or address (of a private or otherwise special network).",
        "Give an https address that everybody can reach, on port 443 or from 1024 up. For receivers on your "
        "own machine see STANCHION_EGRESS_ALLOW.",
    ),
    # --- who asks ---
    Kind(
        "unauthorized",
        401,
        "A valid access token is needed",
        "The request has no bearer token, or the token is unknown, expired or revoked.",
        "Get a token from POST /v1/oauth/token and send it as Authorization: Bearer. It lasts one hour.",
    ),
    Kind(
        "invalid-client",
        401,
        "The client could not be authenticated",
        "The client id is unknown or revoked, or the secret is not its secret.",
        "Check both. Secrets are shown once, when the client is made.",
    ),
    Kind(
        "insufficient-scope",
        403,
        "The token lacks a scope",
        "The token is valid, but was not granted the scope that the operation needs.",
        "Ask for a token with that scope; the description of each operation names it.",
    ),
    Kind(
        "role-not-allowed",
        403,
        "The client's role may not do this",
        "The operation is reserved to another role.",
        "Use a client with the role admin.",
    ),
    Kind(
        "test-mode-only",
        403,
        "This exists in test mode only",
        "The operation simulates something and is refused to clients in live mode.",
        "Use a client of the test mode.",
    ),
    # --- what is asked for ---
    Kind(
        "not-found",
        404,
        "There is no such thing here",
        "The path leads nowhere, or names something that does not exist for this caller. What belongs to "
        "another tenant or to the other mode does not exist for this caller.",
        "Check the path, the id, and the tenant and mode of the client.",
    ),
    Kind(
        "method-not-allowed",
        405,
        "The method is not allowed here",
        "The path exists, but not with this method. The header Allow lists those it has.",
        "See the API description.",
    ),
    Kind(
        "request-timeout",
        408,
        "The request took too long to arrive",
        "The request was not complete within the time limit.",
        "Send the request again, in one go.",
    ),
    Kind(
        "idempotency-key-reused",
        409,
        "The Idempotency-Key belongs to another request",
        "The key was used before with a different body.",
        "Use a fresh key for each new request.",
    ),
    Kind(
        "idempotency-in-progress",
        409,
        "The first request with this key is still running",
        "A request with the same Idempotency-Key has not ended yet.",
        "Repeat the request after the time in Retry-After; it will get the first one's answer.",
    ),
    Kind(
        "conflict",
        409,
        "The request conflicts with what is there",
        "Something with this identity exists.",
        "Read the resource and decide anew.",
    ),
    Kind(
        "invalid-state-transition",
        409,
        "The resource cannot move to that state",
        "From its present state the resource cannot get to the one asked for, or cannot be changed at all.",
        "Read the resource; final states cannot be left.",
    ),
    Kind(
        "gateway-not-enabled",
        409,
        "Gateway mode is not enabled",
        "This installation does not run programmes in gateway mode.",
        "Create the programme in managed mode.",
    ),
    Kind(
        "decision-url-missing",
        409,
        "A delegated programme needs a decision_url",
        "The programme would decide by itself but says nowhere how to be asked.",
        "Set decision_url together with decisioning.",
    ),
    Kind(
        "programme-closed",
        409,
        "The programme is closed",
        "A closed programme takes no new products, cardholders or cards.",
        "Use another programme.",
    ),
    Kind(
        "card-product-retired",
        409,
        "The card product is retired",
        "No cards are issued under a retired product; those that exist go on working.",
        "Use an active product.",
    ),
    Kind(
        "cardholder-not-active",
        409,
        "The cardholder is not active",
        "Cards are issued to active cardholders only.",
        "Use another cardholder, or activate this one first.",
    ),
    Kind(
        "kyc-not-passed",
        409,
        "The cardholder has not passed the KYC flow",
        "The card product demands a passed identity verification of at least its kyc_flow.",
        "Complete a KYC check with that flow for the cardholder first.",
    ),
    Kind(
        "kyc-flow-below-policy",
        409,
        "The flow is weaker than the programme's policy",
        "The programme's kyc_policy demands a stronger flow than the one asked for.",
        "Use the flow that kyc_policy names, or a stronger one.",
    ),
    Kind(
        "kyc-not-collecting",
        409,
        "The check takes no more data",
        "Data and pictures are taken only while the check is pending; this one is in review, or has ended.",
        "Read the check. If it has ended without passing, create another one.",
    ),
    Kind(
        "kyc-not-in-review",
        409,
        "The check is not in review",
        "Only checks in the state in_review wait for a decision.",
        "Read the check; its state says what it waits for, if anything.",
    ),
    Kind(
        "kyc-check-changed",
        409,
        "The check was changed at the same time",
        "Somebody else has changed the check while this request was being worked on; nothing of it was done.",
        "Repeat the request, with the same Idempotency-Key if it has one.",
    ),
    Kind(
        "document-type-not-accepted",
        409,
        "The programme does not accept the document type",
        "The programme's policy has not opted into documents of that type.",
        "Use another document, or add the type to the programme's kyc_document_types.",
    ),
    Kind(
        "document-type-missing",
        409,
        "The document type has to be chosen first",
        "A picture of a document says nothing as long as nobody has said what document it is.",
        "Choose the type, then send the picture.",
    ),
    Kind(
        "cardholder-closed",
        409,
        "The cardholder is closed",
        "A closed cardholder is not verified any more.",
        "Use another cardholder.",
    ),
    Kind(
        "programme-mismatch",
        409,
        "Product and cardholder belong to different programmes",
        "A card, its product and its cardholder belong to one programme.",
        "Use a cardholder of the product's programme.",
    ),
    Kind(
        "card-not-active",
        409,
        "The card is not active",
        "New authorizations can be simulated on active cards only.",
        "Activate the card, or use another.",
    ),
    Kind(
        "card-not-funded",
        409,
        "The card has no funding account",
        "The card was issued without an account, so there is nothing to load.",
        "Issue a card with an account.",
    ),
    Kind(
        "balance-limit-exceeded",
        409,
        "The balance would be too large",
        "A balance has at most 16 digits before the decimal point.",
        "Load less.",
    ),
    Kind(
        "child-simulation",
        409,
        "The simulation is itself a follow-up",
        "Increments, reversals and clearings are about an original spend, never about one of their own kind.",
        "Name the original: parent_simulation_id of this simulation.",
    ),
    Kind(
        "simulation-not-approved",
        409,
        "The simulation is not an approved one",
        "Only a spend that is decided, with the decision approved, can be followed by something.",
        "Read the simulation until it is decided; if it was declined or has failed, simulate another spend.",
    ),
    Kind(
        "network-transaction-unknown",
        409,
        "The spend has no network transaction id",
        "The network's id of the transaction was not recorded, so no later message can name it.",
        "Simulate another spend.",
    ),
    Kind(
        "wire-identity-unknown",
        409,
        "The spend has no wire identity",
        "The trace number and retrieval reference were not recorded, so no later message can name the spend.",
        "Simulate another spend.",
    ),
    Kind(
        "nothing-to-clear",
        409,
        "Nothing is left to clear",
        "All that was approved has been presented or given back.",
        "Give an amount to present more than was approved.",
    ),
    Kind(
        "nothing-held",
        409,
        "Nothing is held",
        "The authorization holds nothing (any more): it was declined, cleared, given back, or has lapsed.",
        "Read the transaction; it says what has become of the hold.",
    ),
    Kind(
        "nothing-decided",
        409,
        "Nothing was decided here",
        "The transaction began with a message that nobody could decline, so there is no decision to make "
        "again.",
        "Replay transactions that were asked for: purchases, verifications and refunds.",
    ),
    Kind(
        "webhook-endpoint-limit",
        409,
        "There are too many webhook endpoints",
        "A tenant has at most 16 webhook endpoints in each mode.",
        "Delete an endpoint that is no longer needed, or subscribe an existing one to more types.",
    ),
    Kind(
        "webhook-endpoint-disabled",
        409,
        "The webhook endpoint is disabled",
        "Nothing is sent to an endpoint that is disabled.",
        "Enable the endpoint first, or name another.",
    ),
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
        "The caller made more requests than the limit allows.",
        "Wait for the time in Retry-After, then go on more slowly.",
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

PROBLEMS: Final[dict[str, Kind]] = {kind.slug: kind for kind in _KINDS}


@dataclass(frozen=True)
class FieldError:
    """One broken rule: a JSON pointer (RFC 6901) into the body or the query, a stable code, a sentence
    without the value.
    """

    pointer: str
    code: str
    detail: str


class Refusal(Exception):  # noqa: N818 -- a refusal is an answer, not an error of the program
    """Ends a request with a problem body. ``members`` are further members of the body."""

    def __init__(
        self,
        slug: str,
        detail: str | None = None,
        *,
        errors: Sequence[FieldError] = (),
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(slug)
        self.kind = PROBLEMS[slug]
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})
        self.members = dict(members or {})

    @property
    def stored(self) -> bool:
        """Whether a repetition with the same idempotency key gets this refusal again."""
        return self.kind.status in _STORED_STATUSES and self.kind.slug not in _NOT_STORED


def not_found() -> Refusal:
    """The one 404 for ids: unknown, foreign and other-mode ones are not told apart."""
    return Refusal("not-found", "There is no such resource.")


def unavailable(seconds: int = 1) -> Refusal:
    """A dependency is down; try again after ``seconds``."""
    return Refusal("dependency-unavailable", headers={"Retry-After": str(seconds)})


def problem_response(refusal: Refusal, request_id: str, base_url: str | None) -> Response:
    """The response of ``refusal``; ``base_url`` is the documentation host, if it is not this one."""
    kind = refusal.kind
    body: dict[str, Any] = {
        "type": f"{base_url or ''}/problems/{kind.slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": refusal.detail or kind.meaning,
        "instance": request_id,
        **refusal.members,
    }
    if refusal.errors:
        body["errors"] = refusal.errors
    return Response(msgspec.json.encode(body), kind.status, refusal.headers, PROBLEM_MEDIA_TYPE)
