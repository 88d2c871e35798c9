"""Ambiguous or malformed JSON bodies are refused, and responses never repeat their values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.http.json_body import parse_json
from api.http.problems import Refusal
from engine.limits import BODY_BYTES_MAX, JSON_DEPTH_MAX
from tests.support.api.driver import Caller

CANARY = "4000001234567899"

BROKEN = {
    "nothing after a brace": b"{",
    "single quotes": b"{'name': 'x'}",
    "trailing comma": b'{"name": "x",}',
    "two values": b"{} {}",
    "comment": b'{"name": "x"} // hi',
    "latin-1": '{"name": "caf\u00e9"}'.encode("latin-1"),
    "utf-16": '{"name": "x"}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"name": "x"}',
    "overlong utf-8": b'{"name": "\xc0\xaf"}',
    "duplicate name": b'{"name": "a", "name": "b"}',
    "duplicate name, nested": b'{"a": [{"b": 1, "b": 1}]}',
    "duplicate name, escaped": b'{"a": 1, "\\u0061": 2}',
    "NaN": b'{"name": NaN}',
    "Infinity": b'{"name": -Infinity}',
    "infinite by size": b'{"name": 1e999}',
    "a number of thousands of digits": b'{"name": ' + b"9" * 5000 + b"}",
    "NUL": b'{"name": "a\\u0000b"}',
    "raw NUL": b'{"name": "a\x00b"}',
    "lone surrogate": b'{"name": "\\ud800"}',
    "lone surrogate in a name": b'{"\\udfff": 1}',
    "control character": b'{"name": "a\nb"}',
    "too deep": b"[" * (JSON_DEPTH_MAX + 1) + b"]" * (JSON_DEPTH_MAX + 1),
    "very deep": b"[" * 30_000,
}


@pytest.mark.parametrize("raw", BROKEN.values(), ids=BROKEN.keys())
async def test_broken_json_returns_invalid_json(acme: Caller, raw: bytes) -> None:
    response = await acme.send("POST", "/v1/programs", raw=raw)
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["type"] == "/problems/invalid-json"


def refused(raw: bytes) -> str:
    """The reason why ``raw`` is refused, or an empty string if it is read; other exceptions fail the test."""
    try:
        parse_json(raw)
    except Refusal as refusal:
        return str(refusal.detail)
    return ""


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_json_of_the_standard_library_is_read(value: Any) -> None:
    raw = json.dumps(value).encode()
    detail = refused(raw)
    # Permitted refusals: too many levels, or a string with NUL or a lone surrogate.
    assert "levels" in detail or "NUL" in detail or parse_json(raw) == value


@given(st.binary())
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    refused(raw)


def test_value_at_the_depth_limit_is_read() -> None:
    parse_json(b"[" * JSON_DEPTH_MAX + b"]" * JSON_DEPTH_MAX)
    parse_json(b'{"a": "\\ud83d\\ude00 {[{[{[{[{[{[{[{[{["}')


async def test_body_above_the_size_limit_returns_413(acme: Caller) -> None:
    padding = b" " * (BODY_BYTES_MAX - len(b'{"name":1}'))
    assert (await acme.send("POST", "/v1/programs", raw=b'{"name":1}' + padding)).status_code == 400
    larger = await acme.send("POST", "/v1/programs", raw=b'{"name":1}' + padding + b" ")
    assert larger.status_code == 413
    assert larger.json()["type"] == "/problems/content-too-large"
    assert larger.headers["connection"] == "close"


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json; charset=utf-8", 201),
        ("application/json;charset=UTF-8", 201),
        ("application/vnd.acme+json", 201),
        ("APPLICATION/JSON", 201),
        ("application/json; charset=iso-8859-1", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("", 415),
    ],
)
async def test_only_json_in_utf_8_is_accepted(acme: Caller, content_type: str, status: int) -> None:
    raw = b'{"name": "Everyday", "currency": "EUR"}'
    response = await acme.send("POST", "/v1/programs", raw=raw, headers={"Content-Type": content_type})
    assert response.status_code == status
    if status == 415:
        assert response.json()["type"] == "/problems/unsupported-media-type"


async def test_compressed_bodies_are_refused(acme: Caller) -> None:
    response = await acme.send("POST", "/v1/programs", raw=b"{}", headers={"Content-Encoding": "gzip"})
    assert response.status_code == 415


@pytest.mark.parametrize("raw", [b"", b"null", b"[]", b'"text"', b"1", b"true"])
async def test_body_that_is_not_an_object_is_refused(acme: Caller, raw: bytes) -> None:
    response = await acme.send("POST", "/v1/programs", raw=raw)
    assert response.status_code == 400
    assert response.json()["errors"][0] == {
        "pointer": "",
        "code": "type",
        "detail": "The value is of the wrong JSON type.",
    }


INVALID: list[tuple[str, Any, str, str]] = [
    ("amount", "12.345", "/amount/amount", "format"),
    ("amount", "1e3", "/amount/amount", "format"),
    ("amount", "-1", "/amount/amount", "format"),
    ("amount", "+1", "/amount/amount", "format"),
    ("amount", "01", "/amount/amount", "format"),
    ("amount", ".5", "/amount/amount", "format"),
    ("amount", "5.", "/amount/amount", "format"),
    ("amount", " 5", "/amount/amount", "format"),
    ("amount", "5\n", "/amount/amount", "format"),
    ("amount", "\u0665", "/amount/amount", "format"),
    ("amount", "1,000", "/amount/amount", "format"),
    ("amount", "NaN", "/amount/amount", "format"),
    ("amount", "", "/amount/amount", "format"),
    ("amount", "1" + "0" * 16, "/amount/amount", "format"),
    ("amount", 12, "/amount/amount", "type"),
    ("amount", 12.5, "/amount/amount", "type"),
    ("amount", None, "/amount/amount", "type"),
    ("amount", ["12"], "/amount/amount", "type"),
    ("amount", True, "/amount/amount", "type"),
    ("currency", "eur", "/amount/currency", "not_allowed"),
    ("currency", "JPY", "/amount/currency", "not_allowed"),
    ("currency", 978, "/amount/currency", "not_allowed"),
]


@pytest.mark.parametrize(("member", "value", "pointer", "code"), INVALID)
async def test_malformed_amount_is_refused_with_its_pointer(
    acme: Caller, member: str, value: Any, pointer: str, code: str
) -> None:
    amount = {"amount": "1.00", "currency": "EUR"} | {member: value}
    body = {"card_id": "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e", "amount": amount}
    problem = await acme.post("/v1/simulated-loads", body, 400)
    assert problem["type"] == "/problems/validation-failed"
    assert [(error["pointer"], error["code"]) for error in problem["errors"]] == [(pointer, code)]


async def test_every_violation_is_reported_without_its_value(acme: Caller) -> None:
    body = {
        "card_id": CANARY,
        "amount": {"amount": CANARY + ".999", "currency": CANARY, CANARY: CANARY},
        "mcc": CANARY,
        "merchant_name": "\u0007" + CANARY,
        "channel": CANARY,
        "entry_mode": CANARY,
        "scenario": CANARY,
        "cvv2": CANARY,
        "mit": CANARY,
        "surprise": CANARY,
    }
    response = await acme.send("POST", "/v1/simulated-spends", body, key=None)
    assert response.status_code == 400
    assert CANARY not in response.text
    found = {error["pointer"]: error["code"] for error in response.json()["errors"]}
    assert found == {
        "/card_id": "format",
        "/amount/amount": "format",
        "/amount/currency": "not_allowed",
        "/amount/?": "unknown_field",
        "/mcc": "format",
        "/merchant_name": "format",
        "/channel": "not_allowed",
        "/entry_mode": "not_allowed",
        "/scenario": "not_allowed",
        "/cvv2": "format",
        "/mit": "type",
        "/surprise": "unknown_field",
    }


@pytest.mark.parametrize(
    ("control", "pointer", "code"),
    [
        ({"kind": "mcc_allow"}, "/controls/0/values", "missing"),
        ({"kind": "mcc_allow", "values": ["541"]}, "/controls/0/values/0", "format"),
        ({"kind": "mcc_allow", "values": "5411"}, "/controls/0/values", "type"),
        ({"kind": "country_deny", "values": ["IE", "XX"]}, "/controls/0/values/1", "not_allowed"),
        ({"kind": "channel_allow", "values": ["phone"]}, "/controls/0/values/0", "not_allowed"),
        ({"kind": "per_txn_cap", "amount": 5}, "/controls/0/amount", "type"),
        ({"kind": "per_txn_cap", "amount": "5", "count": 1}, "/controls/0/count", "unknown_field"),
        ({"kind": "per_day_cap", "count": "5"}, "/controls/0/count", "type"),
        ({"kind": "per_day_cap", "count": -1}, "/controls/0/count", "range"),
        ({"kind": "per_day_cap", "count": 1.0}, "/controls/0/count", "type"),
        ({"kind": CANARY}, "/controls/0/kind", "not_allowed"),
        ({"values": []}, "/controls/0/kind", "missing"),
        ([], "/controls/0", "type"),
    ],
)
async def test_invalid_control_is_refused_with_its_pointer(
    acme: Caller, control: Any, pointer: str, code: str
) -> None:
    id_ = "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e"
    response = await acme.send("PATCH", f"/v1/cards/{id_}", {"controls": [control]})
    assert response.status_code == 400, response.text
    assert [(error["pointer"], error["code"]) for error in response.json()["errors"]] == [(pointer, code)]
    assert CANARY not in response.text
