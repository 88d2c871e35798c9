"""The cache of stored replies, and repeated replies."""

from __future__ import annotations

import msgspec

from actors.cards.answers import RecentAnswers, fingerprint_of, reply_again, reply_from_journal
from actors.journal.contract import StoredReply
from engine.iso8583.identity import late_reversal_key
from engine.replies import Done, Problem, Reply, WireAnswer
from tests.support.engine.build import an_id, authorize, key, load, read_balance

ANSWER = WireAnswer("00", authorize(1).id, "ABC123", 1_000)
DONE = Done(201, {"entry_id": an_id(1)})


def test_repeated_reply_is_marked_as_replayed() -> None:
    answers = RecentAnswers()
    assert answers.repeat(authorize(1)) is None
    answers.remember(authorize(1).command_key, authorize(1).fingerprint, ANSWER)
    assert answers.repeat(authorize(1)) == msgspec.structs.replace(ANSWER, replayed=True)
    assert answers.repeat(authorize(2)) is None


def test_repeat_with_other_content_is_a_conflict() -> None:
    answers = RecentAnswers()
    answers.remember(authorize(1).command_key, authorize(1).fingerprint, ANSWER)
    other = authorize(1, fingerprint=key(9), id=an_id(9))
    assert answers.repeat(other) == WireAnswer("94", ANSWER.authorization_id, replayed=True)


def test_rest_command_has_no_fingerprint() -> None:
    assert fingerprint_of(load(1)) is None
    assert fingerprint_of(read_balance(1)) is None
    assert fingerprint_of(authorize(1)) == authorize(1).fingerprint
    assert reply_again(load(1), None, DONE) == Done(201, DONE.body, replayed=True)
    refused = Problem(409, "conflict", "no")
    assert reply_again(load(1), None, refused) == refused


def test_wire_key_used_by_a_rest_command_is_a_conflict() -> None:
    assert reply_again(load(1), authorize(1).fingerprint, ANSWER) == WireAnswer(
        "94", ANSWER.authorization_id, replayed=True
    )


def test_oldest_replies_are_evicted_first() -> None:
    answers = RecentAnswers(size=3)
    for number in range(5):
        answers.remember(key(number), None, DONE)
    known = [answers.repeat(load(1, command_key=key(number))) is not None for number in range(5)]
    assert known == [False, False, True, True, True]


def test_full_cache_evicts_an_eighth() -> None:
    answers = RecentAnswers(size=80)
    for number in range(81):
        answers.remember(key(number), None, DONE)
    known = [answers.repeat(load(1, command_key=key(number))) is not None for number in range(81)]
    assert known == [False] * 10 + [True] * 71


def test_stored_replies_are_repeated_in_full() -> None:
    replies: list[Reply] = [ANSWER, DONE, WireAnswer("51", an_id(3))]
    stored = {
        key(number): StoredReply(key(number), msgspec.json.encode(reply))
        for number, reply in enumerate(replies)
    }
    answers = RecentAnswers()
    answers.remember_stored(stored)
    for number, reply in enumerate(replies):
        command = authorize(1, command_key=key(number), fingerprint=key(number))
        expected = msgspec.structs.replace(reply, replayed=True)
        assert answers.repeat(command) == expected
        assert reply_from_journal(command, stored[key(number)]) == expected


def test_late_reversal_is_evicted_after_its_command() -> None:
    """Also if the command itself is cached again several times."""
    command, undoing = authorize(1), late_reversal_key(authorize(1).command_key)
    answers = RecentAnswers(size=3)
    newest_first = {
        undoing: StoredReply(None, msgspec.json.encode(WireAnswer("00", command.id))),
        command.command_key: StoredReply(command.fingerprint, msgspec.json.encode(ANSWER)),
    }
    for number in range(6):
        if number % 2:
            answers.remember_stored(newest_first)
        answers.remember(key(100 + number), None, DONE)
        repeated = answers.repeat(command)
        assert repeated is None or repeated == WireAnswer("91", ANSWER.authorization_id, replayed=True)
