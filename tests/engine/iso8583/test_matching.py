"""Responses match their requests in any order; other messages match none."""

from __future__ import annotations

from engine.iso8583.matching import Unanswered, matching_key
from engine.iso8583.message import Message, as_repeat
from engine.iso8583.respond import refusal


def request(stan: int, mti: str = "0100") -> Message:
    return Message(mti, {7: "1121103000", 11: f"{stan:06d}", 32: "424242", 37: f"632510{stan:06d}"})


def test_responses_match_in_any_order() -> None:
    waiting: Unanswered[object] = Unanswered()
    requests = {stan: object() for stan in range(5)}
    for stan, token in requests.items():
        assert waiting.add(request(stan), token) is None
    for stan in (3, 0, 4, 1, 2):
        assert waiting.take(refusal(request(stan), "00")) is requests[stan]
    assert len(waiting) == 0


def test_second_or_unknown_response_matches_no_request() -> None:
    waiting: Unanswered[str] = Unanswered()
    waiting.add(request(1), "token")
    assert waiting.take(refusal(request(2), "00")) is None
    assert waiting.take(refusal(request(1), "00")) == "token"
    assert waiting.take(refusal(request(1), "00")) is None


def test_response_to_a_repeat_matches_its_original() -> None:
    assert matching_key(request(1)) == matching_key(as_repeat(request(1)))
    waiting: Unanswered[str] = Unanswered()
    waiting.add(request(1), "first")
    assert waiting.add(as_repeat(request(1)), "second") == "first"
    assert waiting.take(refusal(as_repeat(request(1)), "00")) == "first"


def test_reversal_with_references_of_its_original_is_another_request() -> None:
    keys = {matching_key(request(1, mti)) for mti in ("0100", "0120", "0220", "0400", "0420")}
    assert len(keys) == 5


def test_each_function_matches_its_response() -> None:
    waiting: Unanswered[str] = Unanswered()
    for mti in ("0100", "0120", "0420"):
        waiting.add(request(1, mti), mti)
    for mti in ("0420", "0100", "0120"):
        assert waiting.take(refusal(request(1, mti), "00")) == mti


def test_forgotten_and_drained_requests_match_no_response() -> None:
    waiting: Unanswered[str] = Unanswered()
    for stan in range(3):
        waiting.add(request(stan), f"token {stan}")
    waiting.forget(request(1))
    waiting.forget(request(1))
    assert list(waiting.drain()) == ["token 0", "token 2"]
    assert len(waiting) == 0
