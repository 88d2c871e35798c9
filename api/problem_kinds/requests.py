"""Problems with the form of a request, and with the client's credentials and rights."""

from __future__ import annotations

from typing import Final

from api.problem_kinds.kind import Kind

KINDS: Final = (
    # --- form of the request ---
    Kind(
        "malformed-request",
        400,
        "The request is not valid HTTP",
        "The request cannot be parsed as HTTP, or has no valid Host header, or more than one.",
        "Use an HTTP library.",
    ),
    Kind(
        "validation-failed",
        400,
        "The request is not valid",
        "The request is well-formed, but some of its members do not fit the operation. The member errors "
        "lists all of them: the place (a JSON pointer), the rule (a stable code), and the reason.",
        "Correct every member that errors lists. Unknown members are refused too: check their spelling.",
    ),
    Kind(
        "invalid-json",
        400,
        "The body is not acceptable JSON",
        "The body is not JSON in UTF-8 (RFC 8259), or contains a construct that JSON parsers read "
        "differently: duplicate names, NaN or infinite numbers, NUL characters, lone surrogates, or more "
        "than 16 levels of nesting.",
        "Send the output of a JSON library unchanged.",
    ),
    Kind(
        "invalid-cursor",
        400,
        "The cursor is unknown",
        "starting_after does not name a row of this list that the client may see.",
        "Start again without starting_after, and pass next_cursor of one page as starting_after of the next.",
    ),
    Kind(
        "idempotency-key-missing",
        400,
        "An Idempotency-Key is required",
        "The operation changes data and must be safe to repeat, so it requires an Idempotency-Key header.",
        "Send a fresh random key with each new request, and the same key with each repetition of it.",
    ),
    Kind(
        "idempotency-key-invalid",
        400,
        "The Idempotency-Key is not valid",
        "A key has 1 to 255 visible ASCII characters, and a request has exactly one key.",
        "Use a UUID or another short random string.",
    ),
    Kind(
        "currency-mismatch",
        400,
        "The currency does not match",
        "The amount or currency differs from the currency of the card, account or programme. Stanchion does "
        "not convert currencies.",
        "Use the currency of the card, the account or the programme.",
    ),
    Kind(
        "decision-url-missing",
        400,
        "A delegated programme needs a decision_url",
        "A programme with decisioning delegated needs an address for its decision calls.",
        "Set decision_url together with decisioning.",
    ),
    Kind(
        "invalid-request",
        400,
        "The token request is malformed",
        "The token request lacks a parameter, repeats one, or identifies its client in two ways (RFC 6749, "
        "section 5.2).",
        "Send grant_type, and the client's id and secret either in the body or by HTTP Basic.",
    ),
    Kind(
        "unsupported-grant-type",
        400,
        "The grant type is not supported",
        "Tokens are issued for client credentials only (RFC 6749, section 4.4).",
        "Send grant_type=client_credentials.",
    ),
    Kind(
        "invalid-scope",
        400,
        "The scope cannot be granted",
        "The scope is malformed, unknown, or not among the client's scopes.",
        "Request scopes that the client has, separated by single spaces, or omit scope to get all of them.",
    ),
    Kind(
        "refund-simulation",
        400,
        "The simulation is a refund",
        "A refund posts at once without a hold, so it cannot be incremented or reversed.",
        "Use a simulation of the kind purchase.",
    ),
    Kind(
        "amount-exceeds-hold",
        400,
        "The amount exceeds the hold",
        "A reversal cannot release more than the authorization still holds.",
        "Read the transaction's held_amount, or omit the amount to release the whole hold.",
    ),
    # --- capture sessions ---
    Kind(
        "class-select-not-supported",
        400,
        "The session has no choice of document type",
        "Only sessions of the kind flow let the applicant choose; this session was created for a single "
        "step.",
        "Create a capture session of the kind flow.",
    ),
    Kind(
        "document-class-locked",
        400,
        "The document type is fixed",
        "A picture of the document is already attached to the check, so the type cannot change any more.",
        "Continue with the chosen type.",
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
        "The programme's policy does not include documents of that type.",
        "Choose one of the types that the session offers, or add it to the programme's kyc_document_types.",
    ),
    Kind(
        "invalid-image",
        400,
        "The body is not an image",
        "The body does not begin like a JPEG, PNG or WebP image, or does not match its Content-Type.",
        "Send the image file unchanged, with its own Content-Type.",
    ),
    Kind(
        "target-refused",
        400,
        "The address may not be called",
        "Stanchion calls only plain https addresses on the public internet whose host name resolves. The "
        "code in errors names the failed check: scheme, userinfo, fragment, host, port, malformed, "
        "unresolvable, or address (in a private or otherwise special network).",
        "Use a publicly reachable https address, on port 443 or from 1024 up. For receivers on your own "
        "machine see STANCHION_EGRESS_ALLOW.",
    ),
    # --- credentials and rights ---
    Kind(
        "unauthorized",
        401,
        "A valid access token is required",
        "The request has no bearer token, or the token is unknown, expired or revoked.",
        "Get a token from POST /v1/oauth/token and send it as Authorization: Bearer. A token lasts one hour.",
    ),
    Kind(
        "invalid-client",
        401,
        "The client could not be authenticated",
        "The client id is unknown or revoked, or the secret is wrong.",
        "Check both. A secret is shown once, when the client is created.",
    ),
    Kind(
        "insufficient-scope",
        403,
        "The token lacks a scope",
        "The token is valid but does not have the scope that the operation requires.",
        "Request a token with that scope; the description of each operation names it.",
    ),
    Kind(
        "role-not-allowed",
        403,
        "The client's role may not use this operation",
        "The operation is reserved for another role.",
        "Use a client with a role that the operation names.",
    ),
    Kind(
        "grant-exceeds-caller",
        403,
        "The grant exceeds the rights of the caller",
        "A client or a user can be given only roles, modes and scopes that the caller has itself.",
        "Leave out the scopes that the caller lacks, or have them granted on the command line.",
    ),
    Kind(
        "test-mode-only",
        403,
        "The operation exists in test mode only",
        "The operation simulates an event of the card network and is refused to clients in live mode.",
        "Use a client in test mode.",
    ),
)
