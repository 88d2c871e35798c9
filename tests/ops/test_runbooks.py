"""Everything that the runbooks name exists: alerts, dashboards, metrics with their labels, settings, log
events.

``test_prometheus`` compares each page with its alert; ``tests/integration/test_runbooks.py`` runs the pages'
queries. With promtool on the machine, it also checks the queries' syntax.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import yaml

from actors.metrics import LABELS, METRICS
from actors.settings import PREFIX, Settings
from actors.shards.role import FENCED_EXIT
from ops.embedded.postgres import wheel_bin_dir
from tests.integration.test_runbooks import TABLE
from tests.support.ops.pages import ROOT, pages, spans

RUNBOOKS: Final = [page for page in pages() if page.startswith("ops/runbooks/")]
QUERY: Final = re.compile(r"\bstanchion[_:]")
ASKED: Final = re.compile(r"(?:\.venv/bin/)?(?:stanchion|make|curl) |GET /")
"""Names from a running installation, or from a shell."""
PROMTOOL: Final = shutil.which("promtool")
OTHERS: Final = {"fsync", "max_connections", "dmesg", "synchronous_standby_names", "pg_stat_replication"}
"""Texts of PostgreSQL and of the kernel."""


@cache
def words_of_ours() -> frozenset[str]:
    """Every one-word string in the sources."""
    paths = [path for package in ("engine", "actors", "api") for path in (ROOT / package).rglob("*.py")]
    return frozenset(
        word for path in paths for word in re.findall(r'"/?(?:problems/)?([\w-]+)"', path.read_text("utf-8"))
    )


@pytest.mark.parametrize("page", RUNBOOKS)
def test_everything_between_backquotes_exists(page: str) -> None:
    for span in spans(page):
        if QUERY.search(span):
            assert unknown_labels(span) == set(), span
        elif span.startswith(PREFIX):
            assert span.removeprefix(PREFIX).lower() in Settings.__struct_fields__
        elif span == "pg_test_fsync":
            assert (wheel_bin_dir() / span).exists()
        elif TABLE not in span and not ASKED.match(span):
            assert span in words_of_ours() | OTHERS, span


def unknown_labels(query: str) -> set[str]:
    """The labels of a query that none of its metrics has."""
    families = {
        name for name in METRICS for asked in re.findall(r"stanchion_\w+", query) if asked.startswith(name)
    }
    used = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", query))
    for group in re.findall(r"\b(?:by|without) \(([^)]*)\)", query):
        used |= {label.strip() for label in group.split(",")}
    return used - {"process", *(label for name in families for label in LABELS.get(name, ()))}


def test_an_unknown_label_is_found() -> None:
    assert unknown_labels('sum by (reason, mood) (rate(stanchion_decisions_total{outcom="x"}[5m]))') == {
        "mood",
        "outcom",
    }
    assert unknown_labels("stanchion_shards") == set()


if PROMTOOL is not None:

    def test_every_query_is_valid(tmp_path: Path) -> None:
        queries = sorted({span for page in RUNBOOKS for span in spans(page) if QUERY.search(span)})
        rules = [{"record": f"asked:{number}", "expr": query} for number, query in enumerate(queries)]
        file = tmp_path / "rules.yml"
        file.write_text(yaml.safe_dump({"groups": [{"name": "runbooks", "rules": rules}]}))
        assert PROMTOOL is not None
        done = subprocess.run([PROMTOOL, "check", "rules", str(file)], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        assert f"{len(queries)} rules found" in done.stdout.decode()


@pytest.mark.parametrize("page", RUNBOOKS)
def test_linked_pages_and_dashboards_exist(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    for name in re.findall(r"\bStanchion[A-Z]\w+", text):
        assert f"ops/runbooks/{name}.md" in RUNBOOKS
    titles = {
        json.loads(path.read_text("utf-8"))["title"] for path in (ROOT / "ops/grafana/json").glob("*.json")
    }
    for name in re.findall(r"dashboard \*([\w-]+)\*", " ".join(text.split())):
        assert f"Stanchion: {name.lower()}" in titles
    for status in re.findall(r"[Ee]xit status (\d+)", text):
        assert int(status) == FENCED_EXIT
