"""Applicants' data are stored sealed and appear in no other place (guarantee G18). The tests search answers,
logs, metrics and all tables of the database for unique values. Cardholders' personal data may appear in
answers only.
"""

from __future__ import annotations

import base64
import io
from typing import Any

import asyncpg
import pytest

from actors.exposition import exposition
from api.sweepers.kyc import sweep
from engine.mrz.zone import Zone, write_zone
from tests.api.kyc.test_evaluation import Provider, judged_by
from tests.support.api.driver import Caller
from tests.support.api.kyc.applicants import begin
from tests.support.api.stack import Installation
from tests.support.api.vision.applicant import PICTURE, bind, open_session, send_picture, vision_host

CONTROL = "control-of-the-search-itself"
MARK = b"marked-picture-of-somebody"
DATA = {
    "given_name": "Zinfandel",
    "family_name": "Quetzalbird",
    "date_of_birth": "1911-03-29",
    "nationality": "MN",
    "address_line1": "77 Obsidian Mews",
    "address_postcode": "QZ9 8XV",
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
            surname=("QUETZALBIRD",),
            given=("ZINFANDEL",),
        )
    ),
}
HOLDER: dict[str, Any] = {
    "given_name": "Wombatrice",
    "family_name": "Yttriumson",
    "email": "wombatrice@yttriumson.example",
    "phone": "+999271828182845",
    "date_of_birth": "1909-10-31",
    "address": {"line1": "88 Feldspar Lane", "city": "Quartzhaven", "postcode": "ZQ7 6WVJ", "country": "MN"},
}
# Too short or too common to be searched for.
COMMON = {"nationality", "address_country", "document_type", "document_issuing_state"}


SHORTEST = 8
"""Characters of base64 below which a large dump could contain them by chance."""


def texts(value: bytes) -> list[bytes]:
    """``value`` as plain text and as hexadecimal, in lower case."""
    return [value.lower(), value.hex().encode()]


def encoded(value: bytes) -> list[bytes]:
    """The base64 characters that depend on ``value`` only, for each of its three alignments."""
    forms = []
    for shift in range(3):
        first, end = -(-8 * shift // 6), 8 * (shift + len(value)) // 6
        forms.append(base64.b64encode(bytes(shift) + value)[first:end])
    assert min(map(len, forms)) >= SHORTEST
    return forms


def canaries() -> dict[str, bytes]:
    rows = DATA["document_mrz"].split("\n")
    values = {name: value.encode() for name, value in DATA.items() if name not in COMMON}
    return values | {"row 1": rows[0].encode(), "row 2": rows[1].encode(), "picture": MARK}


def cardholders_own() -> dict[str, bytes]:
    values = HOLDER | HOLDER["address"]
    return {
        f"holder's {name}": values[name].encode() for name in values if name not in {"address", "country"}
    }


def found_in(text: bytes, looked_for: dict[str, bytes] | None = None) -> set[str]:
    lowered = text.lower()
    return {
        name
        for name, value in (looked_for or canaries()).items()
        if any(form in lowered for form in texts(value)) or any(form in text for form in encoded(value))
    }


async def dump(running: Installation) -> dict[str, bytes]:
    """Every table in PostgreSQL's text format, as in a dump of the database."""
    connection = await asyncpg.connect(running.services.settings.database_dsn)
    try:
        names = await connection.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
        )
        dumped = {}
        for row in names:
            output = io.BytesIO()
            await connection.copy_from_table(row["tablename"], output=output)
            dumped[row["tablename"]] = output.getvalue()
        return dumped
    finally:
        await connection.close()


class Listening:
    """A caller that records all answers."""

    def __init__(self, caller: Caller) -> None:
        self.answers: list[bytes] = []
        self._caller = caller

    async def __call__(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        response = await self._caller.send(method, path, body, **options)
        self.answers.append(response.content + str(dict(response.headers)).encode())
        return response.json()


async def whole_life(running: Installation, acme: Caller, live: Caller) -> tuple[list[bytes], list[str]]:
    """Run every operation on applicants' data; returns all answers and the tokens of capture sessions."""
    programme = await acme.programme()
    call, holder = Listening(acme), await acme.cardholder(programme, **HOLDER, external_ref=CONTROL)
    await life_of_a_cardholder(acme, programme, call)
    check = await begin(acme, "full", holder)
    path = f"/v1/kyc/checks/{check['id']}"
    for _ in range(2):
        await call("POST", f"{path}/submissions", DATA, key="the same")
    await call("POST", f"{path}/submissions", DATA | {"document_expiry": "never"})
    await call("POST", f"{path}/submissions", DATA | {"document_number": DATA["family_name"]})
    await call("POST", f"{path}/submissions", raw=f'{{"given_name": "{DATA["given_name"]}'.encode())
    await call("GET", f"{path}?given_name={DATA['given_name']}")
    await call("GET", "/v1/kyc/checks")
    session = await open_session(acme, check)
    picture = PICTURE + MARK
    async with vision_host(running) as http:
        answers = [
            await bind(http, session, DATA["family_name"]),
            await send_picture(http, session, "document_evidence", picture),
            await send_picture(http, session, "selfie", MARK),
            await send_picture(http, session, "selfie", picture),
        ]
    call.answers += [answer.content for answer in answers]
    await call("GET", path)
    await call("GET", "/v1/events?limit=100")
    again = await begin(acme, "document", holder)
    await call("POST", f"/v1/kyc/checks/{again['id']}/submissions", DATA | {"family_name": "REVIEW"})
    await call("POST", f"/v1/kyc/checks/{again['id']}/review", {"outcome": "passed"})
    # The provider fails with an error message that contains the submitted data.
    async with judged_by(running, live, Provider(RuntimeError(str(DATA)))) as services:
        listening = Listening(live)
        failing = await begin(live, "document")
        await listening("POST", f"/v1/kyc/checks/{failing['id']}/submissions", DATA)
        due = "UPDATE kyc_checks SET evaluate_at = now() WHERE id = $1"
        await running.services.pool.execute(due, failing["id"])
        await sweep(services)
    return call.answers + listening.answers, [session["capture_session_token"]]


async def life_of_a_cardholder(acme: Caller, programme: Any, call: Listening) -> None:
    """Run every operation on a cardholder's personal data, and refused ones, whose answers are stored."""
    holder = await acme.cardholder(programme, **HOLDER)
    path = f"/v1/cardholders/{holder['id']}"
    await call("PATCH", path, {"phone": HOLDER["given_name"]})
    await call("POST", "/v1/cardholders", HOLDER | {"given_name": "", "programme_id": programme["id"]})
    await call("GET", f"/v1/cardholders?external_ref={HOLDER['given_name']}")
    card = await acme.card(await acme.product(programme), holder)
    await acme.load(card, "5.00")
    await acme.spend(card, "1.00")
    await acme.patch(f"/v1/cards/{card['id']}", {"state": "suspended"}, key="change")
    await acme.patch(path, {"email": HOLDER["email"].upper(), "status": "blocked"}, key="change")
    await acme.get(f"/v1/cards?cardholder_id={holder['id']}")


async def test_personal_data_leak_into_no_answer_log_metric_or_table(
    running: Installation, acme: Caller, tenant: str, capfd: pytest.CaptureFixture[str]
) -> None:
    live = await running.caller(tenant, mode="live")
    answers, tokens = await whole_life(running, acme, live)
    looked_for = canaries() | cardholders_own()
    assert len(answers) > 15
    for answer in answers:
        assert found_in(answer, looked_for) == set(), answer
    logs = "".join(capfd.readouterr()).encode()
    assert b"identity provider gave no verdict" in logs
    assert found_in(logs, looked_for) == set()
    figures = exposition({"api": running.services.counts.figures()})
    assert found_in(figures, looked_for) == set()
    tables = await dump(running)
    assert {"kyc_values", "kyc_checks", "kyc_accesses", "event_rows", "idempotency"} <= tables.keys()
    found = {name: found_in(content, looked_for) for name, content in tables.items()}
    assert {name: values for name, values in found.items() if values} == {}
    for token in tokens:
        assert not [name for name, content in tables.items() if token.encode() in content]
        assert token.encode() not in logs


async def test_search_finds_values_in_every_encoding(running: Installation, acme: Caller) -> None:
    """The control is an ``external_ref``, which is stored in clear."""
    holder = await acme.cardholder(await acme.programme(), external_ref=f"{CONTROL} {DATA['family_name']}")
    tables = await dump(running)
    assert CONTROL.encode() in tables["cardholders"]
    assert found_in(tables["cardholders"]) == {"family_name"}
    for name, value in (canaries() | cardholders_own()).items():
        spelt = [base64.b64encode(bytes(shift) + value + b"!") for shift in range(3)]
        for form in (value, value.lower(), value.hex().encode(), value.hex().upper().encode(), *spelt):
            assert name in found_in(b"before " + form + b" after", canaries() | cardholders_own())
    await acme.send("DELETE", f"/v1/cardholders/{holder['id']}")
    assert found_in((await dump(running))["cardholders"]) == set()
