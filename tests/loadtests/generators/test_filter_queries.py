"""Queries for every combination of filters."""

from __future__ import annotations

from loadtests.generators.filter_queries import queries

FILTERS = {
    "mcc": [{"mcc": "5411"}, {"mcc": "7995"}],
    "status": [{"status": "cleared"}],
    "window": [{"from": "a", "to": "b"}, {"to": "c"}],
    "rrn": [{"rrn": "1"}],
}


def test_every_subset_is_asked_for() -> None:
    made = list(queries(FILTERS))
    names = {frozenset("window" if name in ("from", "to") else name for name in query) for query in made}
    assert len(names) == 2 ** len(FILTERS)
    assert made[0] == {}


def test_small_subsets_have_all_their_values() -> None:
    made = list(queries(FILTERS))
    pairs = [query for query in made if set(query) == {"mcc", "status"}]
    assert pairs == [{"mcc": "5411", "status": "cleared"}, {"mcc": "7995", "status": "cleared"}]
    assert len([query for query in made if {"mcc", "status", "rrn"} == set(query)]) == 1


def test_the_same_seed_draws_the_same_values() -> None:
    assert list(queries(FILTERS, 7)) == list(queries(FILTERS, 7))
