"""The trace of a purchase and of a request: edge or API, router, host, commit, as a collector receives it."""

from __future__ import annotations

import re
from pathlib import Path

from actors.settings import Settings
from actors.vault import Vault
from ops.embedded.ports import free_port
from tests.conftest import PostgresServer, execute
from tests.support.actors.otlp import ReceivedSpan, collector
from tests.support.api.stack import installation

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0c3902b7-01"


def chain(spans: list[ReceivedSpan], last: ReceivedSpan) -> list[ReceivedSpan]:
    """``last`` and the spans above it, the first one first."""
    by_id = {span.span_id: span for span in spans}
    found = [last]
    while found[0].parent_id in by_id:
        found.insert(0, by_id[found[0].parent_id])
    return found


def named(spans: list[ReceivedSpan], name: str, **attributes: object) -> list[ReceivedSpan]:
    wanted = {key.replace("__", "."): value for key, value in attributes.items()}
    return [span for span in spans if span.name == name and wanted.items() <= span.attributes.items()]


async def test_purchase_and_request_are_traced_from_their_arrival_to_their_commit(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    name = "stanchion_test_traces"
    execute(postgres_server.admin_url, f"CREATE DATABASE {name} TEMPLATE {postgres_server.template}")
    async with collector() as received:
        settings = Settings.load(
            var_dir=tmp_path,
            database_url=postgres_server.database(name),
            iso8583_port=free_port(),
            auto_clear_seconds=0,
            otlp_endpoint=received.url,
        )
        async with installation(settings, Vault.from_settings(settings)) as running:
            acme = await running.caller()
            card = await acme.funded_card()
            spend = await acme.spend(card, "10.00")
            renamed = await acme.send(
                "PATCH",
                f"/v1/programs/{card['programme_id']}",
                {"name": "Renamed"},
                headers={"traceparent": PARENT},
            )
            assert renamed.status_code == 200
            await running.http.get("/healthz")
        spans = received.spans
    execute(postgres_server.admin_url, f"DROP DATABASE {name} WITH (FORCE)")

    (edge,) = named(spans, "edge", stanchion__trace=spend["rrn"])
    assert edge.attributes["iso8583.mti"] == "0100"
    assert edge.attributes["iso8583.response_code"] == "00"
    (commit,) = [each for each in named(spans, "commit") if chain(spans, each)[0] is edge]
    stages = chain(spans, commit)
    assert [stage.name for stage in stages] == ["edge", "router", "host", "commit"]
    assert {stage.trace_id for stage in stages} == {edge.trace_id}
    assert [stage.begin_ns for stage in stages] == sorted(stage.begin_ns for stage in stages)
    for stage in stages[1:3]:
        assert stage.attributes["stanchion.command"] == "authorize"
        assert stage.attributes["stanchion.trace"] == spend["rrn"]
        assert stage.attributes["stanchion.response_code"] == "00"
        assert stage.attributes["stanchion.authorization_id"] == spend["authorization_id"]
    assert stages[2].attributes["stanchion.card_id"] == card["id"]
    assert commit.attributes["stanchion.commands"] == 1
    assert commit.attributes["stanchion.rows"] == 1

    (http,) = named(spans, "http", stanchion__operation="update_program")
    assert (http.trace_id, http.parent_id) == (PARENT.split("-")[1], PARENT.split("-")[2])
    assert http.attributes["http.response.status_code"] == 200
    assert http.attributes["stanchion.trace"] == renamed.headers["x-request-id"]
    (written,) = [each for each in named(spans, "commit") if chain(spans, each)[0] is http]
    assert [stage.name for stage in chain(spans, written)] == ["http", "router", "host", "commit"]
    # Pages other than the API's are not traced, and no span failed.
    assert all("stanchion.operation" in span.attributes for span in named(spans, "http"))
    assert not [span for span in spans if span.failed]
    values = [str(value) for span in spans for value in span.attributes.values()]
    assert not [value for value in values if re.fullmatch(r"\d{13,19}", value)]
