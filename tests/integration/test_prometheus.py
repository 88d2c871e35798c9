"""Run every query of dashboards, rules and runbooks on a real Prometheus that scrapes the installation.

The test exists only on machines with Prometheus (Debian's package ``prometheus``).
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from ops.embedded.ports import free_port
from ops.prometheus.__main__ import SCRAPE_SECONDS, command
from ops.supervision.installation import RUN_FILE
from tests.support.api.driver import Caller
from tests.support.integration.stack import Stack
from tests.support.ops.pages import pages, spans

ROOT: Final = Path(__file__).parents[2]
PROMETHEUS: Final = shutil.which("prometheus")
SECONDS_MAX: Final = 120.0
# Queries about faults have no series in a healthy installation.
FAULTS_ONLY: Final = re.compile(
    r"stand_in|outage|programme_answers|\"declined\"|stanchion_refusals|webhook|late_approvals|\"5\.\.\""
)


def queries() -> dict[str, str]:
    """The queries of the dashboards, by dashboard and panel, and those of the runbooks."""
    runbooks = [page for page in pages() if page.startswith("ops/runbooks/")]
    found = {span for page in runbooks for span in spans(page)}
    found_queries = {f"runbooks: {span}": span for span in found if re.search(r"\(.*stanchion_", span)}
    assert len(found_queries) > 4
    for path in sorted((ROOT / "ops/grafana/json").glob("*.json")):
        for panel in json.loads(path.read_text("utf-8"))["panels"]:
            for target in panel.get("targets", ()):
                name = f"{path.stem}: {panel['title']} {target['refId']}"
                found_queries[name] = target["expr"].replace("$__rate_interval", "4s")
    return found_queries


class Prometheus:
    """A Prometheus server with the project's rules and a short scrape interval."""

    def __init__(self, folder: Path, record: dict[str, Any]) -> None:
        (folder / RUN_FILE).write_text(json.dumps(record), "utf-8")
        port = free_port()
        started = command(folder, port)
        self.url = f"http://127.0.0.1:{port}"
        config = folder / "prometheus/prometheus.yml"
        config.write_text(config.read_text("utf-8").replace(f"{SCRAPE_SECONDS}s", "1s"), "utf-8")
        self._http = httpx2.Client(base_url=f"{self.url}/api/v1/", timeout=60.0)
        self.process = subprocess.Popen(started, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(self, path: str, **query: str) -> Any:
        """The data of an answer of its HTTP API."""
        answer = self._http.get(path, params=query).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(SECONDS_MAX)
        self._http.close()


if PROMETHEUS is not None:

    @pytest.fixture
    def prometheus(stack: Stack, tmp_path: Path) -> Iterator[Prometheus]:
        server = Prometheus(tmp_path, stack.record)
        yield server
        server.stop()

    async def test_every_query_of_dashboards_and_runbooks_has_a_result(
        prometheus: Prometheus, demo: Caller
    ) -> None:
        card = await demo.funded_card()
        deadline = time.monotonic() + SECONDS_MAX
        unanswered = dict(queries())
        while unanswered:
            assert time.monotonic() < deadline, unanswered
            await demo.spend(card, "1.00")
            await demo.spend(card, "9999.00")
            await asyncio.sleep(0.5)
            with suppress(httpx2.TransportError):  # it is still starting
                for name, query in list(unanswered.items()):
                    if prometheus.ask("query", query=query)["result"] or FAULTS_ONLY.search(query):
                        del unanswered[name]
        # Every rule has been evaluated by now; none may report an error.
        rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
        assert len(rules) > 20
        assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"} == {}
        (target,) = prometheus.ask("targets")["activeTargets"]
        assert target["lastError"] == ""
