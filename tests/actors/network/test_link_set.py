"""Links of one process: separate limits and counters, shared load, and the operators' sign-offs."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from actors.exposition import exposition
from actors.metrics import LABELS, METRICS, Histogram
from actors.network.card_secrets import CardSecrets
from actors.network.database import DatabaseUnavailableError
from actors.network.edge import Edge
from actors.network.edge_counts import EdgeCounts
from actors.network.link_set import LinkSet
from actors.network.links.entry import LinkEntry
from actors.network.links.status import decode_statuses, encode_statuses
from actors.network.probe_limiter import ProbeLimiter
from actors.network.respondent import Respondent
from ops.embedded.ports import free_ports
from tests.support.actors.network.links import entry_of
from tests.support.actors.network.support import CARD, PAN, Owners, Peer, lookup_of, request, until


class BuiltLink(NamedTuple):
    edge: Edge
    respondent: Respondent


class Rig:
    """Links in front of one owner; ``signed_off`` are the operators' sign-offs."""

    def __init__(self, card_secrets: CardSecrets, open_max: int) -> None:
        self.owners = Owners()
        self.signed_off: Collection[str] | Exception = ()
        self.links: LinkSet
        self._card_secrets = card_secrets
        self._open_max = open_max
        self._cards = lookup_of(card_secrets, {PAN: CARD})

    async def read_sign_offs(self) -> Collection[str]:
        if isinstance(self.signed_off, Exception):
            raise self.signed_off
        return self.signed_off

    def build(self, entry: LinkEntry, open_elsewhere: Callable[[], int] | None) -> BuiltLink:
        counts = EdgeCounts()
        respondent = Respondent(self.owners.submit, self._cards, self._card_secrets)
        edge = Edge(
            respondent, entry=entry, counts=counts, open_elsewhere=open_elsewhere, open_max=self._open_max
        )
        return BuiltLink(edge, respondent)

    async def connect(self, entry: LinkEntry) -> Peer:
        return Peer(*await asyncio.open_connection(entry.host, entry.port))

    def states(self) -> list[str]:
        return [status.state for status in self.links.statuses()]


@asynccontextmanager
async def running(
    card_secrets: CardSecrets,
    *entries: LinkEntry,
    open_max: int = 1_000,
    signed_off: Collection[str] | Exception = (),
) -> AsyncIterator[Rig]:
    rig = Rig(card_secrets, open_max)
    rig.signed_off = signed_off
    probes = ProbeLimiter(time.monotonic)
    rig.links = LinkSet(entries, rig.build, rig.read_sign_offs, probes, Histogram(), poll_seconds=0.01)
    await rig.links.start()
    try:
        yield rig
    finally:
        rig.owners.gate.set()
        await rig.links.stop()
        await rig.links.stop()


def one_and_other() -> tuple[LinkEntry, LinkEntry]:
    first, second = free_ports(2)
    return entry_of(name="one", port=first), entry_of(name="other", port=second)


async def test_each_link_has_counters_and_a_state_of_its_own(card_secrets: CardSecrets) -> None:
    one, other = one_and_other()
    async with running(card_secrets, one, other) as rig:
        peer = await rig.connect(one)
        assert (await peer.ask(request(1))).fields[39] == "00"
        first, second = decode_statuses(encode_statuses(rig.links.statuses()))
        assert (first.name, first.state, first.connections, first.in_flight) == ("one", "up", 1, 0)
        assert first.answers == first.per_minute == {"0110 00": 1}
        assert (second.name, second.connections, second.answers) == ("other", 0, {})
        assert first.address == f"127.0.0.1:{one.port}"
        await peer.close()


async def test_open_requests_of_all_links_count_towards_one_limit(card_secrets: CardSecrets) -> None:
    one, other = one_and_other()
    async with running(card_secrets, one, other, open_max=2) as rig:
        rig.owners.gate.clear()
        busy, refused = await rig.connect(one), await rig.connect(other)
        busy.send(request(1), request(2))
        await until(lambda: len(rig.owners.submitted) == 2)
        assert (await refused.ask(request(3))).fields[39] == "91"
        rig.owners.gate.set()
        assert [(await busy.receive()).fields[39] for _ in range(2)] == ["00", "00"]
        for peer in (busy, refused):
            await peer.close()


async def test_sign_off_of_an_operator_closes_its_link_alone(card_secrets: CardSecrets) -> None:
    one, other = one_and_other()
    async with running(card_secrets, one, other) as rig:
        rig.signed_off = {"one"}
        await until(lambda: rig.states() == ["signed_off", "up"])
        rig.signed_off = DatabaseUnavailableError()
        await until(lambda: rig.states() == ["signed_off", "up"])
        rig.signed_off = ()
        await until(lambda: rig.states() == ["up", "up"])


async def test_signed_off_link_does_not_open_at_the_start(card_secrets: CardSecrets) -> None:
    one, other = one_and_other()
    async with running(card_secrets, one, other, signed_off={"other"}) as rig:
        assert rig.states() == ["up", "signed_off"]


async def test_link_whose_port_is_taken_does_not_hinder_the_others(card_secrets: CardSecrets) -> None:
    one, other = one_and_other()
    async with running(card_secrets, one, other, signed_off={"one", "other"}) as rig:
        with socket.create_server((one.host, one.port)):
            rig.signed_off = ()
            await until(lambda: rig.states() == ["signed_off", "up"])
            assert rig.links.statuses()[0].last_error == "cannot open: Address already in use"
        await until(lambda: rig.states() == ["up", "up"])


async def test_failed_start_leaves_no_port_open(card_secrets: CardSecrets) -> None:
    one, other = one_and_other()
    with socket.create_server((other.host, other.port)):
        with pytest.raises(OSError, match="address already in use"):
            async with running(card_secrets, one, other):
                pass
    async with running(card_secrets, one, other) as rig:
        assert rig.states() == ["up", "up"]


async def test_start_without_the_database_opens_the_links(card_secrets: CardSecrets) -> None:
    one, other = one_and_other()
    async with running(card_secrets, one, other, signed_off=DatabaseUnavailableError()) as rig:
        assert rig.states() == ["up", "up"]


async def test_link_in_plain_text_warns_at_every_start(
    card_secrets: CardSecrets, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = free_ports(2)
    plain = entry_of(name="plain", host="0.0.0.0", port=first, plaintext_accepted=True)
    async with running(card_secrets, plain, entry_of(name="local", port=second)):
        pass
    lines = [line for line in capsys.readouterr().out.splitlines() if "link_in_plain_text" in line]
    assert len(lines) == 1
    assert "link=plain" in lines[0]


async def test_figures_have_the_names_and_labels_of_the_page(card_secrets: CardSecrets) -> None:
    one, other = one_and_other()
    async with running(card_secrets, one, other) as rig:
        peer = await rig.connect(one)
        await peer.ask(request(1))
        rig.links.statuses()
        figures = rig.links.figures()
        assert figures.keys() <= METRICS.keys()
        assert {name for name in figures if name.startswith("stanchion_link_")} <= LABELS.keys()
        page = exposition({"edge": figures}).decode()
        assert (
            'stanchion_link_answers_total{link="one",mti="0110",process="edge",response_code="00"} 1.0'
            in page
        )
        assert 'stanchion_link_up{link="other",process="edge"} 1.0' in page
        assert 'stanchion_wire_requests_total{process="edge"} 1.0' in page
        await peer.close()
