"""The metrics page, read as Prometheus would read it."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

SECONDS_MAX = 10.0
DECIDED = "stanchion_commands_total"
COMMITTED = "stanchion_commits_total"
PROCESS_ID = "stanchion_process_id"


class Scrape(NamedTuple):
    """The page at one instant (monotonic seconds)."""

    at: float
    totals: dict[str, float]
    """Each metric's sum over all processes."""
    processes: dict[str, int]
    """Process ids by the name of the process; other samples describe the database."""


async def scrape(url: str) -> Scrape:
    """Read the page."""
    text = await asyncio.to_thread(_read, url)
    return parse(text, time.monotonic())


def parse(text: str, at: float) -> Scrape:
    """Parse the text of the page."""
    totals: dict[str, float] = {}
    processes: dict[str, int] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            totals[sample.name] = totals.get(sample.name, 0.0) + sample.value
            if sample.name == PROCESS_ID:
                processes[sample.labels["process"]] = int(sample.value)
    return Scrape(at, totals, processes)


def _read(url: str) -> str:
    # The address comes from run.json and names this machine.
    with urlopen(url, timeout=SECONDS_MAX) as answer:
        return str(answer.read(), "utf-8")
