"""The chapter about identity verification: the programme's request, the applicant's steps on the capture
page, and the card."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Final

import httpx2

from ops.demo.checks import expect
from stanchion import Client, ConflictError
from stanchion.inputs import SubmissionFields
from stanchion.records import CaptureSession

PERSON: Final[SubmissionFields] = {
    "given_name": "Grace",
    "family_name": "Murray",
    "date_of_birth": "1990-05-17",
    "nationality": "IE",
    "address_line1": "12 Harbour Street",
    "address_postcode": "D02 XY45",
    "address_country": "IE",
    "document_mrz": "P<IRLMURRAY<<GRACE<BREWSTER<<<<<<<<<<<<<<<<<\n"
    "PA12345673IRL9005178F3302288<<<<<<<<<<<<<<02",
}


def verify(api: Client, say: Callable[[str], None]) -> None:
    """One case from its request to the card. Raises DemoError."""
    programme = api.programs.create(name="Verified", currency="EUR", kyc_policy="full")
    product = api.card_products.create(
        programme_id=programme["id"],
        name="Verified",
        network="visa",
        currency="EUR",
        form_factor="virtual",
        iin="45600000",
        kyc_flow="full",
    )
    holder = api.cardholders.create(
        programme_id=programme["id"], given_name="Grace", family_name="Murray", email="grace@example.com"
    )
    try:
        api.cards.create(card_product_id=product["id"], cardholder_id=holder["id"])
    except ConflictError as refused:
        expect("the refusal of the card", refused.slug, "kyc-not-passed")
    else:
        expect("a card without verification", "issued", "refused")
    say("a product with kyc_flow full: no card for Grace Murray before she is verified")
    check = api.kyc.create(cardholder_id=holder["id"], flow_key="full")
    say(f"check {check['id']} awaits {len(check['awaiting'])} inputs")
    check = api.kyc.submit(check["id"], **PERSON)
    expect("awaited inputs", check["awaiting"], ["document_type", "document_evidence", "selfie"])
    say("her data and her passport's MRZ go into custody, sealed under a key of their case and purpose")
    say(f"still awaited: {', '.join(check['awaiting'])}")
    _capture(api.kyc.create_capture_session(check["id"], kind="flow"), say)
    check = api.kyc.get(check["id"])
    expect("state of the check", (check["state"], check["awaiting"]), ("passed", []))
    say(f"the check has passed and is valid until {str(check['expires_at'])[:10]}")
    expect("kyc_state", api.cardholders.get(holder["id"])["kyc_state"], "passed")
    card = api.cards.create(card_product_id=product["id"], cardholder_id=holder["id"])
    expect("state of the card", card["state"], "active")
    say(f"card {card['id']}: issued")


def _capture(session: CaptureSession, say: Callable[[str], None]) -> None:
    """The request that the page sends when the applicant taps a button."""
    address, _, token = session["url"].partition("#")
    with httpx2.Client(base_url=address.removesuffix("/capture"), timeout=20) as page:
        expect("status of the capture page", page.get("/capture").status_code, 200)
        say(f"Grace opens {address} on her phone (it stays open for an hour)")
        chosen = {"capture_session_token": token, "document_type": "passport"}
        bound = page.post("/v1/vision/set-document-type", json=chosen)
        expect("the chosen document", bound.json().get("document_type"), "passport")
        for name in ("document_evidence", "selfie"):
            headers = {"Capture-Session-Token": token, "Content-Type": "image/png"}
            sent = page.post(f"/v1/vision/evidence/{name}", content=_picture(), headers=headers)
            expect(f"status of the {name}", sent.status_code, 200)
        locked = page.post("/v1/vision/set-document-type", json=chosen | {"document_type": "national_id"})
        expect("a change of the document type", locked.json().get("code", "taken"), "document_class_locked")
    say("she chooses passport and takes two pictures; from then on her choice is locked")


def _picture() -> bytes:
    """A small grey PNG."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    side = 16
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x80" * side) * side)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
