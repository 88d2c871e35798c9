"""The index of authorizations: the one that a reference names, and the reference to read from the journal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.cards.authorization import Authorization, references_of
from engine.cards.authorization_index import AuthorizationIndex
from engine.commands import (
    Advise,
    Present,
    Reverse,
    reference_of_id,
    reference_of_message,
    reference_of_network,
)
from tests.support.engine.build import CARD, NOW_MS, account, an_id, key, wire
from tests.support.engine.desk import SHOP

NETWORK = reference_of_network("life")


def authorization(number: int, **parts: Any) -> Authorization:
    """An approved purchase of 10.00 without a hold; ``number`` makes its id and its message."""
    made = Authorization(
        id=an_id(number),
        card_id=CARD,
        kind="purchase",
        currency="EUR",
        day="2026-11-21",
        command_key=key(number),
        network_txn_id="life",
        requested_minor=1_000,
        approved_minor=1_000,
    )
    return msgspec.structs.replace(made, **parts)


def opened(number: int, **parts: Any) -> Authorization:
    """An authorization in gateway mode with an open amount."""
    return authorization(number, remainder_minor=1_000, **parts)


def follow_up(make: Any, *references: str, **parts: Any) -> Any:
    amounts = {} if make is Reverse else {"amount_minor": 1_000, **SHOP}
    kind = {"kind": "purchase", "arn": None, "sequence": 1} if make is Present else {}
    channel = {"channel": "pos"} if make is Advise else {}
    members = amounts | kind | channel | parts
    return make(
        id=an_id(99),
        command_key=key(99),
        card_id=CARD,
        fingerprint=key(99),
        wire=wire(99),
        references=references,
        **members,
    )


def test_opened_authorization_has_all_its_references() -> None:
    index = AuthorizationIndex()
    sale = authorization(1)
    index.add(sale)
    assert len(index) == 3
    assert [index[name] for name in references_of(sale)] == [sale] * 3
    assert list(index) == [sale]


def test_absent_reference_has_no_authorization() -> None:
    index = AuthorizationIndex()
    index.load(reference_of_message(key(1)), ())
    assert reference_of_message(key(1)) in index
    with pytest.raises(KeyError):
        index[reference_of_message(key(1))]
    reversal = follow_up(Reverse, reference_of_message(key(1)))
    assert index.find_original(reversal, None, NOW_MS) is None
    assert index.missing_reference(reversal, None) is None


def test_first_unknown_reference_is_missing() -> None:
    index = AuthorizationIndex()
    message = reference_of_message(key(1))
    reversal = follow_up(Reverse, message, NETWORK)
    assert index.missing_reference(reversal, None) == message
    index.load(message, ())
    assert index.missing_reference(reversal, None) == NETWORK
    index.load(NETWORK, ())
    assert index.missing_reference(reversal, None) is None


def test_known_message_makes_later_references_unnecessary() -> None:
    index = AuthorizationIndex()
    index.add(opened(1, network_txn_id=None))
    reversal = follow_up(Reverse, reference_of_message(key(1)), NETWORK)
    assert index.missing_reference(reversal, None) is None
    assert index.find_original(reversal, None, NOW_MS) == opened(1, network_txn_id=None)


def test_open_sale_needs_no_older_members_of_its_group() -> None:
    index = AuthorizationIndex()
    index.add(opened(1))
    assert index.missing_reference(follow_up(Reverse, NETWORK), None) is None
    closed = AuthorizationIndex()
    closed.add(authorization(1, closed="captured", cleared_minor=1_000))
    assert closed.missing_reference(follow_up(Reverse, NETWORK), None) == NETWORK


def test_presentment_that_names_another_message_needs_the_older_members() -> None:
    index = AuthorizationIndex()
    index.add(opened(2))
    other = follow_up(Present, NETWORK, reference_of_message(key(1)))
    assert index.missing_reference(other, None) == NETWORK
    own = follow_up(Present, NETWORK, reference_of_message(key(2)))
    assert index.missing_reference(own, None) is None


def test_refund_presentment_is_certain_of_an_equal_refund_only() -> None:
    index = AuthorizationIndex()
    index.add(opened(1, kind="refund"))
    equal, smaller = (
        follow_up(Present, NETWORK, kind="refund", amount_minor=amount) for amount in (1_000, 400)
    )
    assert index.missing_reference(equal, None) is None
    assert index.missing_reference(smaller, None) == NETWORK


def test_group_is_complete_after_a_read() -> None:
    index = AuthorizationIndex()
    newest = opened(3)
    index.add(newest)
    index.load(NETWORK, [authorization(1), authorization(2), authorization(3)])
    assert [each.id for each in index] == [an_id(3), an_id(1), an_id(2)]
    assert index[NETWORK] is newest
    other = follow_up(Present, NETWORK, reference_of_message(key(9)))
    assert index.missing_reference(other, None) is None
    # A second read does not replace a complete group.
    index.load(NETWORK, ())
    assert index[NETWORK] is newest


def test_complete_empty_group_grows_with_each_opened_authorization() -> None:
    index = AuthorizationIndex()
    index.load(NETWORK, ())
    first, second, third = authorization(1), authorization(2), authorization(3)
    for each in (first, second, third):
        index.add(each)
        index.add(each)
    assert index[NETWORK] is third
    assert index.missing_reference(follow_up(Reverse, NETWORK), None) is None


def test_group_without_a_read_is_incomplete() -> None:
    index = AuthorizationIndex()
    index.add(authorization(1, closed="released"))
    index.add(authorization(2, closed="released"))
    assert index.missing_reference(follow_up(Reverse, NETWORK), None) == NETWORK


def test_read_authorization_in_memory_is_not_replaced() -> None:
    index = AuthorizationIndex()
    sale = opened(1)
    index.add(sale)
    message = reference_of_message(key(50))
    index.load(message, [authorization(1)])
    assert index[message] is sale
    index.load(reference_of_id(sale.id), [authorization(1)])
    assert index[reference_of_id(sale.id)] is sale


def test_reversal_of_a_reversed_message_finds_the_advice_that_replaced_it() -> None:
    index = AuthorizationIndex()
    message = reference_of_message(key(1))
    reversed_ = authorization(1, closed="released", reversed_minor=1_000)
    index.add(reversed_)
    reversal = follow_up(Reverse, message)
    assert index.missing_reference(reversal, None) == NETWORK
    advice = opened(2, stands_for=(message,))
    index.load(NETWORK, [reversed_, advice])
    assert index.missing_reference(reversal, None) is None
    assert index.find_original(reversal, None, NOW_MS) is advice
    by_edge = follow_up(Reverse, message, late=True)
    assert index.find_original(by_edge, None, NOW_MS) is reversed_


def test_presentment_that_names_a_replaced_message_finds_the_advice() -> None:
    index = AuthorizationIndex()
    message = reference_of_message(key(1))
    index.load(NETWORK, [authorization(1, closed="released"), opened(2, stands_for=(message,))])
    found = index.find_original(follow_up(Present, NETWORK, message), account(), NOW_MS)
    assert found is not None
    assert found.id == an_id(2)


def test_eviction_keeps_the_newest_authorizations_with_all_their_references() -> None:
    index = AuthorizationIndex()
    index.load(NETWORK, ())
    for number in range(1, 41):
        index.add(authorization(number, network_txn_id=None))
    index.evict_oldest(100)
    assert len(index) == 81
    index.evict_oldest(40)
    kept = [each.id for each in index]
    assert kept == [an_id(number) for number in range(41 - len(kept), 41)]
    assert 0 < len(index) <= 40
    assert len(index) == 2 * len(kept)


def test_later_reference_is_missing_if_a_complete_group_has_no_match() -> None:
    index = AuthorizationIndex()
    index.load(NETWORK, [authorization(1, kind="verification", approved_minor=0)])
    message = reference_of_message(key(9))
    advice = follow_up(Advise, NETWORK, message)
    assert index.missing_reference(advice, None) == message
    index.load(message, ())
    assert index.missing_reference(advice, None) is None
    assert index.find_original(advice, None, NOW_MS) is None
