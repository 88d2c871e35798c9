"""Whatever the runbooks name is there: alerts, dashboards, figures with their labels, settings, log lines.

``test_prometheus`` holds each page to its alert; ``tests/integration/test_runbooks.py`` asks what is to be
asked. With promtool on the machine it reads the queries.
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
from tests.ops.pages import ROOT, pages, spans

RUNBOOKS: Final = [page for page in pages() if page.startswith("ops/runbooks/")]
QUERY: Final = re.compile(r"\bstanchion[_:]")
ASKED: Final = re.compile(r"(?:\.venv/bin/)?(?:stanchion|make|curl) |GET /")
"""Of a running installation, or of a shell."""
PROMTOOL: Final = shutil.which("promtool")
OTHERS: Final = {"fsync", "max_connections", "dmesg"}
"""PostgreSQL's and the kernel's own words."""


@cache
def words_of_ours() -> frozenset[str]:
    """Every text of one word in the sources."""
    paths = [path for room in ("engine", "actors", "api") for path in (ROOT / room).rglob("*.py")]
    return frozenset(
        word for path in paths for word in re.findall(r'"/?(?:problems/)?([\w-]+)"', path.read_text("utf-8"))
    )


@pytest.mark.parametrize("page", RUNBOOKS)
def test_everything_between_backquotes_is_there(page: str) -> None:
    for span in spans(page):
        if QUERY.search(span):
            assert unknown_labels(span) == set(), span
        elif span.startswith(PREFIX):
            assert span.removeprefix(PREFIX).lower() in Settings.model_fields
        elif span == "pg_test_fsync":
            assert (wheel_bin_dir() / span).exists()
        elif TABLE not in span and not ASKED.match(span):
            assert span in words_of_ours() | OTHERS, span


def unknown_labels(query: str) -> set[str]:
    """The labels that a query uses and none of its figures has."""
    families = {
        name for name in METRICS for asked in re.findall(r"stanchion_\w+", query) if asked.startswith(name)
    }
    used = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", query))
    for group in re.findall(r"\b(?:by|without) \(([^)]*)\)", query):
        used |= {label.strip() for label in group.split(",")}
    return used - {"process", *(label for name in families for label in LABELS.get(name, ()))}


def test_a_label_that_nobody_has_is_found() -> None:
    assert unknown_labels('sum by (reason, mood) (rate(stanchion_decisions_total{outcom="x"}[5m]))') == {
        "mood",
        "outcom",
    }
    assert unknown_labels("stanchion_shards") == set()


if PROMTOOL is not None:

    def test_every_query_is_one(tmp_path: Path) -> None:
        queries = sorted({span for page in RUNBOOKS for span in spans(page) if QUERY.search(span)})
        rules = [{"record": f"asked:{number}", "expr": query} for number, query in enumerate(queries)]
        file = tmp_path / "rules.yml"
        file.write_text(yaml.safe_dump({"groups": [{"name": "runbooks", "rules": rules}]}))
        assert PROMTOOL is not None
        done = subprocess.run([PROMTOOL, "check", "rules", str(file)], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        assert f"{len(queries)} rules found" in done.stdout.decode()


@pytest.mark.parametrize("page", RUNBOOKS)
def test_other_pages_and_dashboards_are_there(page: str) -> None:
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
