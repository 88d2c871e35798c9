"""The figures of the webhook benchmark, from recorded arrivals."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from actors.egress.client import Egress
from actors.settings import Settings
from loadtests.harness.receivers import Arrivals, make_trust
from loadtests.webhooks import phase_of, text
from ops.embedded.local_https import Answer, Request, serving


def test_a_phase_counts_for_each_delivery() -> None:
    arrivals = Arrivals(arrived=[1.0] * 200, age_ms=[float(age) for age in range(1, 201)])
    phase = phase_of("steady", arrivals, 2.0, {"relay": 0.01, "dispatcher-0": 0.05}, 0.02, 3.0)
    assert (phase.deliveries_per_second, phase.p50_ms, phase.p99_ms) == (100.0, 100.0, 198.0)
    assert phase.cpu_us == pytest.approx(300.0)
    assert phase.receivers_us == pytest.approx(100.0)
    assert phase.parts_us == pytest.approx({"dispatcher-0": 250.0, "relay": 50.0})
    assert list(phase.parts_us) == ["dispatcher-0", "relay"]


def test_a_phase_without_deliveries_has_no_figures_for_each() -> None:
    phase = phase_of("alone", Arrivals(), 2.0, {"relay": 0.01}, 0.0, 1.0)
    assert (phase.deliveries_per_second, phase.cpu_us, phase.p99_ms) == (0.0, 0.0, None)


def test_the_report_is_a_table() -> None:
    phase = phase_of("steady", Arrivals([1.0] * 10, [5.0] * 10), 1.0, {"relay": 0.01}, 0.0, 1.0)
    phase.decisions_p50_ms, phase.decisions_p99_ms = 2.0, 9.5
    lines = text([phase]).splitlines()
    assert lines[2].startswith("| steady | 10 | 5 | 5 | 1000 |")
    assert lines[2].endswith("| 2.0, 9.5 |")
    assert lines[-1] == "- steady: relay 1000"


async def test_an_installation_calls_its_receivers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(_request: Request) -> Answer:
        return Answer(204)

    trust = make_trust(tmp_path)
    for name, value in trust.environment.items():
        monkeypatch.setenv(name, value)
    settings = Settings.load(var_dir=tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(trust.certificate)
    egress = Egress(settings.egress_allow, settings.egress_ca_file)
    async with serving(tls, answer) as address:
        received = await egress.post(f"{address}/x", b"{}", {}, timeout_seconds=10, body_bytes_max=10)
    await egress.close()
    assert received.status == 204
