"""A link sends only its message classes, for its institutions and IINs; other messages reach no owner."""

from __future__ import annotations

from typing import Any

import pytest

from actors.network.card_secrets import CardSecrets
from engine.commands import Present
from engine.iso8583.elements import write_private
from engine.iso8583.message import Message
from engine.iso8583.message_class import MESSAGE_CLASSES
from engine.replies import WireAnswer
from tests.support.actors.network.links import entry_of, running_link
from tests.support.actors.network.support import PAN, request
from tests.support.engine.iso8583.messages import ORIGINAL

OWN = "424242"
"""DE32 of the example message."""
REFUND = "200000"


def message_of(class_: str, stan: int = 1) -> Message:
    """A message of each class."""
    match class_:
        case "authorization":
            return request(stan)
        case "advice":
            return request(stan, "0120", de90=ORIGINAL)
        case "presentment":
            return request(stan, "0220", de90=ORIGINAL)
        case "refund":
            return request(stan, de3=REFUND)
        case "force_post":
            message = request(stan, "0220")
            message.fields.pop(48, None)
            message.fields.pop(90, None)
            return message
        case _:
            return request(stan, "0420", de90=ORIGINAL)


@pytest.mark.parametrize("refused", MESSAGE_CLASSES)
async def test_class_that_a_link_may_not_send_gets_58(card_secrets: CardSecrets, refused: str) -> None:
    entry = entry_of(may_post=frozenset(MESSAGE_CLASSES) - {refused})
    async with running_link(card_secrets, entry) as harness, harness.peer() as peer:
        for stan, class_ in enumerate(MESSAGE_CLASSES):
            answer = await peer.ask(message_of(class_, stan))
            assert answer.fields[39] == ("58" if class_ == refused else "00"), class_
        assert len(harness.owners.submitted) == len(MESSAGE_CLASSES) - 1
        assert harness.edge.counts.screened == {"message_class": 1}


async def test_presented_refund_needs_the_permission_for_refunds(card_secrets: CardSecrets) -> None:
    entry = entry_of(may_post=frozenset({"presentment", "force_post"}))
    async with running_link(card_secrets, entry) as harness, harness.peer() as peer:
        answer = await peer.ask(request(1, "0220", de3=REFUND, de90=ORIGINAL))
    assert answer.fields[39] == "58"
    assert harness.owners.submitted == []


@pytest.mark.parametrize("allowed", [True, False])
async def test_presentment_without_permission_for_force_posts_must_find_its_sale(
    card_secrets: CardSecrets, allowed: bool
) -> None:
    """The link cannot invent the reference: the owner refuses what it does not find."""
    classes = {"presentment", "force_post"} if allowed else {"presentment"}
    async with (
        running_link(card_secrets, entry_of(may_post=frozenset(classes))) as harness,
        harness.peer() as peer,
    ):
        harness.owners.decide = lambda command: WireAnswer("00" if allowed else "58", "")
        answer = await peer.ask(request(1, "0220", de48=write_private({"04": "INVENTED"})))
    (command,) = harness.owners.submitted
    assert isinstance(command, Present)
    assert command.matched_only is not allowed
    assert answer.fields[39] == ("00" if allowed else "58")
    assert harness.edge.counts.screened == ({} if allowed else {"message_class": 1})


@pytest.mark.parametrize(
    ("mti", "changes", "code"),
    [
        ("0100", {}, "00"),
        ("0100", {"de32": "00000424242"}, "00"),
        ("0100", {"de32": "999"}, "31"),
        ("0120", {"de32": "999"}, "31"),
        ("0220", {"de32": "999"}, "31"),
        ("0420", {"de32": "999"}, "31"),
        ("0100", {"de33": "999"}, "31"),
        ("0100", {"de33": "17"}, "00"),
        # A reversal must not name another institution's message.
        ("0420", {"de90": f"{ORIGINAL[:20]}{999:011d}{0:011d}"}, "31"),
        ("0420", {"de90": f"{ORIGINAL[:20]}{17:011d}{0:011d}"}, "00"),
        ("0420", {"de90": f"{ORIGINAL[:20]}{0:022d}"}, "00"),
    ],
)
async def test_foreign_institution_gets_31(
    card_secrets: CardSecrets, mti: str, changes: dict[str, Any], code: str
) -> None:
    entry = entry_of(institutions=frozenset({OWN, "17"}))
    fields = {"de32": OWN, "de90": f"{ORIGINAL[:20]}{0:022d}"} | changes
    async with running_link(card_secrets, entry) as harness, harness.peer() as peer:
        answer = await peer.ask(request(1, mti, **fields))
    assert answer.fields[39] == code
    assert len(harness.owners.submitted) == (code == "00")
    assert harness.edge.counts.screened == ({} if code == "00" else {"institution": 1})


@pytest.mark.parametrize(("iin", "code"), [(PAN[:6], "00"), (PAN[:8], "00"), ("999999", "31")])
async def test_foreign_iin_gets_31(card_secrets: CardSecrets, iin: str, code: str) -> None:
    entry = entry_of(iins=("1234", "".join(iin)))
    async with running_link(card_secrets, entry) as harness, harness.peer() as peer:
        assert (await peer.ask(request())).fields[39] == code
    assert harness.edge.counts.screened == ({} if code == "00" else {"iin": 1})


async def test_malformed_message_gets_30_before_it_is_screened(card_secrets: CardSecrets) -> None:
    entry = entry_of(institutions=frozenset({"17"}))
    async with running_link(card_secrets, entry) as harness, harness.peer() as peer:
        assert (await peer.ask(request(de4="x" * 12))).fields[39] == "30"
    assert harness.edge.counts.screened == {}
