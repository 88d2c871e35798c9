"""Problems of the request as such, and of who makes it."""

from __future__ import annotations

from typing import Final

from api.problem_kinds.kind import Kind

KINDS: Final = (
    # --- the request as such ---
    Kind(
        "malformed-request",
        400,
        "The request is not HTTP",
        "The request cannot be read as HTTP, or has no valid Host header or more than one.",
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
        "decision-url-missing",
        400,
        "A delegated programme needs a decision_url",
        "The programme would decide by itself but says nowhere how to be asked.",
        "Set decision_url together with decisioning.",
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
)
