"""Spans as a collector receives them, and tracing that is off."""

from __future__ import annotations

import asyncio
import sys

import pytest

from actors.settings import Settings, SettingsError
from actors.tracing import PARENT, Tracer, check_exporter, close_tracer, open_tracer
from engine.replies import Done, NotExecuted, Problem, WireAnswer
from tests.support.actors.otlp import Collector, collector

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0c3902b7"
SAMPLED = f"00-{TRACE}-{SPAN}-01"
NOT_SAMPLED = f"00-{TRACE}-{SPAN}-00"


def opened(received: Collector, **settings: object) -> Tracer:
    tracer = open_tracer(Settings.load(otlp_endpoint=received.url, **settings), "edge")
    assert tracer is not None
    return tracer


async def test_tracing_is_off_without_an_endpoint() -> None:
    assert open_tracer(Settings.load(), "edge") is None
    await close_tracer(None)


def test_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    monkeypatch.setattr("actors.tracing.find_spec", lambda _name: None)
    traced = Settings.load(otlp_endpoint="http://127.0.0.1:1")
    for step in (check_exporter, lambda settings: open_tracer(settings, "edge")):
        with pytest.raises(SettingsError, match=r"^STANCHION_OTLP_ENDPOINT: .*install 'stanchion\[otel\]'$"):
            step(traced)
    check_exporter(Settings.load())


async def test_spans_arrive_with_parents_times_and_attributes() -> None:
    async with collector() as received:
        tracer = opened(received, otlp_headers="authorization=Bearer secret, x-team=cards")
        root = tracer.start("edge", kind="server", attributes={"iso8583.mti": "0100", "absent": None})
        with root.current():
            child = tracer.start("router", PARENT.get())
        assert PARENT.get() is None
        tracer.record("commit", child, 0.25, {"stanchion.commands": 3})
        child.end(failed=True)
        root.end({"iso8583.response_code": "00"})
        await close_tracer(tracer)
        spans = {span.name: span for span in received.spans}
    edge, router, commit = spans["edge"], spans["router"], spans["commit"]
    assert (edge.process, edge.parent_id, edge.failed) == ("edge", "", False)
    assert edge.attributes == {"iso8583.mti": "0100", "iso8583.response_code": "00"}
    assert (router.trace_id, router.parent_id, router.failed) == (edge.trace_id, edge.span_id, True)
    assert (commit.parent_id, commit.attributes) == (router.span_id, {"stanchion.commands": 3})
    assert commit.end_ns - commit.begin_ns == 250_000_000
    assert root.traceparent.startswith(f"00-{edge.trace_id}-{edge.span_id}-0")
    sent = {name.lower(): value for name, value in received.headers[0].items()}
    assert (sent["authorization"], sent["x-team"]) == ("Bearer secret", "cards")
    assert (sent["content-type"], sent["content-encoding"]) == ("application/x-protobuf", "gzip")


async def test_parent_decides_whether_a_trace_is_sent() -> None:
    async with collector() as received:
        for ratio in (0.0, 1.0):
            tracer = opened(received, trace_ratio=ratio)
            for name, parent in (("sampled", SAMPLED), ("not sampled", NOT_SAMPLED), ("root", None)):
                span = tracer.start(name, parent)
                if parent is not None:
                    assert span.traceparent[-2:] == parent[-2:]
                span.end()
            await close_tracer(tracer)
        names = [span.name for span in received.spans]
        assert sorted(names) == ["root", "sampled", "sampled"]
        assert {(s.trace_id, s.parent_id) for s in received.spans if s.name == "sampled"} == {(TRACE, SPAN)}


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "nonsense",
        SAMPLED.upper(),
        f"{SAMPLED}-more",
        f"01{SAMPLED[2:]}",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
    ],
)
async def test_malformed_parent_begins_a_new_trace(parent: str) -> None:
    async with collector() as received:
        tracer = opened(received)
        tracer.start("http", parent).end()
        await close_tracer(tracer)
        (span,) = received.spans
        assert (span.parent_id, span.trace_id == TRACE) == ("", False)


async def test_refusing_or_absent_collector_costs_spans_only(monkeypatch: pytest.MonkeyPatch) -> None:
    # The exporter repeats a refused batch with growing pauses; the test does not wait for them.
    monkeypatch.setattr("actors.tracing.EXPORT_SECONDS_MAX", 1)
    async with collector() as received:
        received.status = 503
        tracer = opened(received)
        for _ in range(100):
            tracer.start("edge").end()
        async with asyncio.timeout(60):
            await close_tracer(tracer)
        assert received.spans == []
        address = received.url
    tracer = open_tracer(Settings.load(otlp_endpoint=address), "edge") or pytest.fail("tracing is off")
    tracer.start("edge").end()
    async with asyncio.timeout(60):
        await close_tracer(tracer)


def test_outcome_of_each_kind_of_reply() -> None:
    from actors.tracing import reply_attributes

    for reply, shown in (
        (
            WireAnswer("51", "id", reason="insufficient_funds"),
            {
                "stanchion.response_code": "51",
                "stanchion.reason": "insufficient_funds",
                "stanchion.authorization_id": "id",
            },
        ),
        (Done(201, {}, replayed=True), {"stanchion.status": 201, "stanchion.replayed": True}),
        (
            Problem(409, "card-not-active", ""),
            {"stanchion.status": 409, "stanchion.reason": "card-not-active"},
        ),
        (NotExecuted("deadline"), {"stanchion.reason": "deadline"}),
    ):
        found = reply_attributes(reply)
        assert {name: value for name, value in found.items() if value is not None} == shown
