"""An applicant and a card with unique values, which go through all operations while faults are injected
(G18).

``ops.chaos.leaks`` then searches everything that the installation wrote for these values and for its secrets.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import struct
import zlib
from pathlib import Path
from typing import Any, Final

import aiohttp

from engine.mrz.zone import Zone, write_zone

CONTROL: Final = "control-value-of-the-search"
MARK: Final = b"mark-of-the-canary-picture"
PICTURE_PIXELS: Final = 8
ROUND_PAUSE_SECONDS: Final = 15.0
"""Pause between two rounds: a client may make sixty KYC writes a minute."""
ATTEMPT_SECONDS_MAX: Final = 20.0
ATTEMPTS_MAX: Final = 60
RETRY_SECONDS: Final = 1.0
PERSON: Final = {
    "given_name": "Zinfandelia",
    "family_name": "Quetzalbirdsson",
    "date_of_birth": "1911-03-29",
    "nationality": "MN",
    "address_line1": "77 Obsidian Mews",
    "address_postcode": "QZ9 8XVK",
    "address_country": "MN",
    "document_type": "passport",
    "document_number": "QZX918273",
    "document_expiry": "2077-08-19",
    "document_issuing_state": "MN",
    "document_mrz": write_zone(
        Zone(
            size="TD3",
            code="P",
            issuer="MNG",
            number="QZX918273",
            nationality="MNG",
            birth="110329",
            sex="M",
            expiry="770819",
            surname=("QUETZALBIRDSSON",),
            given=("ZINFANDELIA",),
        )
    ),
}
HOLDER: Final[dict[str, Any]] = {
    "given_name": "Wombatrice",
    "family_name": "Yttriumsdottir",
    "email": "wombatrice@yttriumsdottir.example",
    "phone": "+999271828182845",
    "date_of_birth": "1909-10-31",
    "address": {
        "line1": "88 Feldspar Terrace",
        "city": "Quartzhaven",
        "postcode": "ZQ7 6WVJ",
        "country": "MN",
    },
}
"""The applicant's cardholder. API answers contain these values, so they are not searched for them."""
COMMON: Final = frozenset({"nationality", "address_country", "document_type", "document_issuing_state"})
"""Values that are too short or too common to identify."""


class Canaries:
    """Call ``open`` when the installation serves, then ``run_forever``, then ``close``."""

    def __init__(self) -> None:
        self._http: aiohttp.ClientSession
        self._base_url = ""
        self._vision_url = ""
        self._card_id = ""
        self._programme_id = ""
        self._serials = itertools.count(1)
        self.answers: list[bytes] = []
        self.keys: dict[str, bytes] = {}
        self.tokens: dict[str, bytes] = {}
        self.cvv2s: set[str] = set()
        self.rounds = 0

    async def open(self, record: dict[str, Any], token: str, programme_id: str, card_id: str) -> None:
        """Connect with ``token``."""
        self._base_url, self._vision_url = record["base_url"], record["vision_url"]
        self._programme_id, self._card_id = programme_id, card_id
        self._http = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {token}"},
            timeout=aiohttp.ClientTimeout(total=ATTEMPT_SECONDS_MAX),
        )

    async def close(self) -> None:
        """Disconnect."""
        await self._http.close()

    def add_secret(self, name: str, secret: str | bytes) -> None:
        """Register a secret of the installation to search for; keys are bytes."""
        if isinstance(secret, bytes):
            self.keys[name] = secret
        else:
            self.tokens[name] = secret.encode()

    async def run_forever(self) -> None:
        """Run one round after the other until cancelled."""
        while True:
            await self.run_once()
            await asyncio.sleep(ROUND_PAUSE_SECONDS)

    async def run_once(self) -> None:
        """One round: everything that can happen to an applicant's data and to a card number."""
        given = HOLDER | {"programme_id": self._programme_id, "external_ref": CONTROL}
        holder = await self._request("POST", "/v1/cardholders", given)
        check = await self._request(
            "POST", "/v1/kyc/checks", {"cardholder_id": holder["id"], "flow_key": "full"}
        )
        path = f"/v1/kyc/checks/{check['id']}"
        await self._request("POST", f"{path}/submissions", PERSON | {"document_expiry": "never"})
        await self._request(
            "POST", f"{path}/submissions", PERSON | {"document_number": PERSON["family_name"] * 9}
        )
        await self._request("POST", f"{path}/submissions", PERSON)
        await self._capture(path)
        await self._request("GET", path)
        person = f"/v1/cardholders/{holder['id']}"
        await self._request("GET", person)
        await self._request("PATCH", person, {"email": HOLDER["email"].upper()})
        await self._request("PATCH", person, {"phone": HOLDER["given_name"]})
        await self._request("GET", f"/v1/cardholders?external_ref={HOLDER['given_name']}")
        await self._shop()
        await self._card_of(holder["id"])
        await self._request("GET", "/v1/events?limit=50")
        # Every other cardholder keeps the control value in the database.
        if self.rounds % 2:
            await self._request("DELETE", person)
        self.rounds += 1

    async def _card_of(self, cardholder_id: str) -> None:
        """Issue a card, whose answers contain the cardholder's name, and terminate it, so that the cardholder
        can be erased."""
        product_id = (await self._request("GET", f"/v1/cards/{self._card_id}"))["card_product_id"]
        given = {"card_product_id": product_id, "cardholder_id": cardholder_id}
        card = await self._request("POST", "/v1/cards", given)
        await self._request("PATCH", f"/v1/cards/{card['id']}", {"state": "terminated"})

    async def _capture(self, path: str) -> None:
        """Send pictures through the vision host."""
        session = await self._request("POST", f"{path}/capture-sessions", {"kind": "flow"}, keep_answer=False)
        token = session["capture_session_token"]
        self.add_secret("a capture session token", token)
        bound = {"capture_session_token": token, "document_type": "passport"}
        await self._request("POST", f"{self._vision_url}/v1/vision/set-document-type", bound)
        for evidence in ("document_evidence", "selfie"):
            await self._request(
                "POST", f"{self._vision_url}/v1/vision/evidence/{evidence}", picture(), token=token
            )

    async def _shop(self) -> None:
        """Present a CVV2."""
        issued = await self._request("POST", f"/v1/cards/{self._card_id}/cvv2", {}, keep_answer=False)
        self.cvv2s.add(issued["cvv2"])
        spend = {
            "card_id": self._card_id,
            "amount": {"amount": "1.00", "currency": "EUR"},
            "mcc": "5411",
            "merchant_name": "Corner shop",
            "channel": "ecommerce",
            "scenario": "cvv2_presented",
        }
        simulation = await self._request("POST", "/v1/simulated-spends", spend | {"cvv2": issued["cvv2"]})
        await asyncio.sleep(0.5)
        await self._request("GET", f"/v1/simulated-spends/{simulation['simulation_id']}")
        await self._request("GET", f"/v1/transactions?card_id={self._card_id}&limit=5")
        await self._request("GET", f"/v1/cards/{self._card_id}")

    async def _request(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | bytes | None = None,
        *,
        keep_answer: bool = True,
        token: str | None = None,
    ) -> Any:
        """The JSON of the first final answer. Answers are kept for the search, unless they contain a secret
        by design."""
        headers = {"Idempotency-Key": f"canary-{next(self._serials)}"} if token is None else {}
        if token is not None:
            headers |= {"Capture-Session-Token": token, "Content-Type": "image/png"}
        address = path if path.startswith("http") else self._base_url + path
        sent: Any = {"data": body} if isinstance(body, bytes) else {"json": body}
        for _ in range(ATTEMPTS_MAX):
            try:
                async with self._http.request(method, address, headers=headers, **sent) as response:
                    raw = await response.read()
            except (aiohttp.ClientError, TimeoutError, OSError):
                pass  # not reachable; try again
            else:
                if keep_answer:
                    self.answers.append(raw + str(dict(response.headers)).encode())
                # 401: while the database clock is wrong, the token is not valid.
                if response.status < 500 and response.status not in (401, 409, 429):
                    return json.loads(raw) if raw else {}
            await asyncio.sleep(RETRY_SECONDS)
        raise TimeoutError(f"no final answer to {method} {path}")


def personal() -> dict[str, bytes]:
    """The applicant's personal data, by name."""
    rows = PERSON["document_mrz"].split("\n")
    values = {name: value.encode() for name, value in PERSON.items() if name not in COMMON}
    return values | {"row 1": rows[0].encode(), "row 2": rows[1].encode(), "picture": MARK}


def holders() -> dict[str, bytes]:
    """The cardholder's personal data, by name."""
    texts = HOLDER | HOLDER["address"]
    names = [name for name in texts if name not in {"address", "country"}]
    return {f"cardholder's {name}": texts[name].encode() for name in names}


def picture() -> bytes:
    """A valid PNG in one colour, with a mark after its end."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x20\x60\xa0" * PICTURE_PIXELS) * PICTURE_PIXELS
    header = struct.pack(">IIBBBBB", PICTURE_PIXELS, PICTURE_PIXELS, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body + MARK


def master_key(var_dir: Path) -> bytes:
    """The raw key; the search also looks for its base64 form."""
    text = (var_dir / "keys" / "master.key").read_text().strip()
    return base64.b64decode(text.rpartition(":")[2])
