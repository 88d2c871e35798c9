"""The driver's checks of arguments: faster for our own classes, with the same answers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import asyncpg
import pytest
from asyncpg.protocol import protocol

from actors.journal.argument_checks import CHECKS, use_plain_checks
from actors.journal.commit_arguments import commit_arguments
from tests.support.actors.journal.backends import PostgresBackend
from tests.support.actors.journal.cases import spend, with_card


@pytest.fixture(autouse=True)
def _checks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CHECKS:
        monkeypatch.setattr(protocol, name, getattr(protocol, name))
    use_plain_checks()


def test_this_version_of_the_driver_has_the_checks() -> None:
    assert CHECKS.keys() <= vars(protocol).keys()


async def test_rows_of_a_commit_need_no_abstract_class(postgres: PostgresBackend) -> None:
    journal = await postgres.open("a")
    owner = await with_card(journal)
    await journal.commit(owner.decide(spend(1)))
    rows = owner.decide(spend(2), spend(3))
    arguments = [each for each in commit_arguments("a", rows) if isinstance(each, list)]
    asked: list[str] = []

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_name == "__instancecheck__":
            asked.append(type(frame.f_locals["instance"]).__name__)

    sys.setprofile(note)
    try:
        await journal.commit(rows)
    finally:
        sys.setprofile(None)
    # An integer is neither iterable nor of a usual class.
    assert len(asked) <= sum(isinstance(value, int) for each in arguments for value in each)
    assert set(asked) <= {"int"}


@pytest.mark.parametrize("array", [["x"], ("x",), {"x"}, frozenset("x"), {"x": 1}.keys(), {1: "x"}.values()])
async def test_every_array_is_accepted_as_before(postgres: PostgresBackend, array: Any) -> None:
    assert await postgres.session.fetchval("SELECT $1::text[]", array) == ["x"]


@pytest.mark.parametrize("wrong", ["x", b"x", 1, {"x": 1}, iter("x")])
async def test_other_values_are_refused_as_before(postgres: PostgresBackend, wrong: Any) -> None:
    with pytest.raises(asyncpg.DataError, match="sized iterable container expected"):
        await postgres.session.fetchval("SELECT $1::text[]", wrong)


def values() -> Iterator[Any]:
    yield from ([], (), "", b"", 0, None, {}, set(), {}.keys(), iter(()), range(3), object())


@pytest.mark.parametrize("name", ["IterableABC", "SizedABC"])
def test_answers_are_those_of_the_abstract_class(name: str) -> None:
    abstract = CHECKS[name][-1]
    for value in values():
        assert isinstance(value, CHECKS[name]) is isinstance(value, abstract)
