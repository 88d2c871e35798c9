"""Ids have the number of their shard, and derived ids have the same shard."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.ids import new_id, new_id_beside
from engine.ids import Derived, approval_code, derive, first_id_at, id_of_pair, is_id, key_of, shard_of
from engine.limits import SHARD_COUNT

ids = st.uuids().map(str)


@given(ids, st.sampled_from(Derived))
def test_deriving_twice_gives_the_same_id(id_: str, kind: Derived) -> None:
    derived = derive(id_, kind)
    assert derived != id_
    assert derive(derived, kind) == id_


@given(ids)
def test_derived_ids_have_the_same_shard(id_: str) -> None:
    derived = [derive(id_, kind) for kind in Derived]
    assert len({id_, *derived}) == len(Derived) + 1
    assert {shard_of(each) for each in derived} == {shard_of(id_)}
    assert all(is_id(each) and each[:-4] == id_[:-4] for each in derived)


def test_derivations_of_two_kinds_differ() -> None:
    values = [0, *Derived]
    differences = [left ^ right for left, right in combinations(values, 2)]
    assert 0 not in differences
    assert all(0 < kind < 256 for kind in Derived)


@pytest.mark.parametrize("shard", [0, 1, 0x7F, 0xA7, 255])
def test_new_id_has_the_requested_shard(shard: int) -> None:
    id_ = new_id(shard)
    assert shard_of(id_) == shard
    assert shard_of(new_id_beside(id_)) == shard
    assert is_id(id_)
    assert id_[14] == "7", "a UUIDv7"


def test_new_ids_differ_and_rise_with_time() -> None:
    fresh = [new_id() for _ in range(2_000)]
    assert len(set(fresh)) == len(fresh)
    assert [id_[:13] for id_ in fresh] == sorted(id_[:13] for id_ in fresh)
    assert len({shard_of(id_) for id_ in fresh}) > SHARD_COUNT * 0.9


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "01990000-0000-7000-8000-0000000000A7",
        "01990000000070008000000000000000a7",
        "{01990000-0000-7000-8000-0000000000a7}",
        "01990000-0000-7000-8000-0000000000a7\n",
        " 01990000-0000-7000-8000-0000000000a7",
        "urn:uuid:01990000-0000-7000-8000-0000000000a7",
        "01990000-0000-7000-8000-0000000000a\u0667",
    ],
)
def test_other_spellings_are_not_ids(text: str) -> None:
    assert not is_id(text)


@given(ids)
def test_approval_code_is_six_characters_and_deterministic(id_: str) -> None:
    code = approval_code(id_)
    assert re.fullmatch(r"[0-9A-Z]{6}", code)
    assert code == approval_code(id_)
    assert not set(code) & set("ILOU"), "no letters that can be misread"


def test_approval_codes_differ() -> None:
    codes = {approval_code(new_id()) for _ in range(500)}
    assert len(codes) >= 499


@given(ids, ids)
def test_id_of_a_pair_has_the_shard_of_the_second(first: str, second: str) -> None:
    pair = id_of_pair(first, second)
    assert is_id(pair)
    assert pair == id_of_pair(first, second)
    assert shard_of(pair) == shard_of(second)
    assert pair != id_of_pair(derive(first, Derived.HOLD), second)


def test_first_id_of_an_instant_precedes_its_ids() -> None:
    at_ms = 1_795_255_200_000
    first = first_id_at(at_ms)
    assert is_id(first)
    assert first == "01a1fd8c-6900-7000-8000-000000000000"
    assert first < first_id_at(at_ms + 1)


def test_key_of_an_id_is_its_sixteen_bytes() -> None:
    assert key_of("01990000-0000-7000-8000-0000000000a7").hex() == "019900000000700080000000000000a7"
