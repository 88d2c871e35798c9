"""Commands name their owner, and references name authorizations."""

from __future__ import annotations

import pytest

from engine.commands import (
    Command,
    is_message,
    is_network,
    key_of_message,
    reference_of_id,
    reference_of_message,
    reference_of_network,
    target_of,
)
from tests.support.engine.build import (
    CARD,
    PROGRAMME,
    an_id,
    authorize,
    change_programme,
    create_card,
    create_programme,
    key,
    load,
)


@pytest.mark.parametrize(
    ("command", "target"),
    [
        (authorize(), CARD),
        (load(), CARD),
        (create_card(1), an_id(0x20_0001)),
        (create_programme(1), an_id(0x60_0001)),
        (change_programme(), PROGRAMME),
    ],
    ids=lambda each: type(each).__name__,
)
def test_target_is_the_card_or_the_programme(command: Command, target: str) -> None:
    assert target_of(command) == target


def test_references_of_messages_and_networks_differ() -> None:
    message, network, own = (
        reference_of_message(key(7)),
        reference_of_network("N1"),
        reference_of_id(an_id(1)),
    )
    assert key_of_message(message) == key(7)
    assert [is_message(each) for each in (message, network, own)] == [True, False, False]
    assert [is_network(each) for each in (message, network, own)] == [False, True, False]
