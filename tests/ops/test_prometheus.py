"""Rules, alerts and dashboards use existing metrics, and every alert has a runbook and test cases.

With promtool on the machine (Debian's package ``prometheus``) it also checks the files and runs the cases.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from actors.exposition import exposition
from actors.metrics import BUCKETS, LABELS, METRICS, SECONDS, Figure, Figures, Histogram
from ops.prometheus import __main__ as beside

ROOT: Final = Path(__file__).parents[2]
PROMETHEUS: Final = ROOT / "ops/prometheus"
RUNBOOKS: Final = ROOT / "ops/runbooks"
DASHBOARDS: Final = ROOT / "ops/grafana/json"
PROMTOOL: Final = shutil.which("promtool")

ALERTS: Final = (PROMETHEUS / "rules/alerts.yml").read_text("utf-8")
RECORDING: Final = (PROMETHEUS / "rules/recording.yml").read_text("utf-8")
CASES: Final = (PROMETHEUS / "tests/alerts.yml").read_text("utf-8")
NAMES: Final = re.findall(r"^ +- alert: (\w+)$", ALERTS, re.MULTILINE)
SUFFIXES: Final = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
}


def texts() -> dict[str, str]:
    """Everything that contains queries, by its path."""
    paths = [*PROMETHEUS.rglob("*.yml"), *DASHBOARDS.glob("*.json"), *RUNBOOKS.glob("*.md")]
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths}


def full_page() -> bytes:
    """The metrics page of a process with all metrics."""
    figures: Figures = {}
    for name, (kind, _) in METRICS.items():
        one = Histogram(BUCKETS.get(name, SECONDS)).figure() if kind == "histogram" else 1.0
        values = tuple("x" for _ in LABELS.get(name, ()))
        labelled: Figure = {values: one}  # type: ignore[assignment]
        figures[name] = labelled if values else one
    return exposition({"process": figures})


@pytest.mark.parametrize("path", texts())
def test_queries_use_existing_metrics_only(path: str) -> None:
    sold = {f"{name}{suffix}" for name, (kind, _) in METRICS.items() for suffix in SUFFIXES[kind]}
    # A runbook may name a metric by its family.
    known = sold | set(METRICS) if path.startswith("ops/runbooks/") else sold
    asked = set(re.findall(r"(?<![\w:.-])stanchion_\w+", texts()[path]))
    assert asked <= known
    recorded = set(re.findall(r"stanchion:\w+:\w+", texts()[path]))
    assert recorded <= set(re.findall(r"^ +- record: (\S+)$", RECORDING, re.MULTILINE))


def test_every_alert_has_a_runbook_and_test_cases() -> None:
    assert len(NAMES) == len(set(NAMES)) > 10
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == set(NAMES)
    for name in NAMES:
        assert f"runbook_url: ops/runbooks/{name}.md\n" in ALERTS
        page = (RUNBOOKS / f"{name}.md").read_text("utf-8")
        assert page.startswith(f"# {name}\n")
        assert page.index("## Look at") < page.index("## Do")
        assert f"  - name: {name} with its cause\n" in CASES
        assert f"  - name: {name} without\n" in CASES


if PROMTOOL is not None:

    def promtool(*arguments: str, given: bytes | None = None) -> None:
        """Run promtool; the test fails with its output if it reports an error."""
        assert PROMTOOL is not None
        done = subprocess.run([PROMTOOL, *arguments], cwd=ROOT, input=given, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b""), (done.stdout + done.stderr).decode()

    def test_the_configuration_is_valid() -> None:
        promtool("check", "config", "ops/prometheus/prometheus.yml")

    def test_each_alert_fires_only_for_its_cause() -> None:
        promtool("test", "rules", "ops/prometheus/tests/alerts.yml")

    def test_names_and_units_follow_prometheus_conventions() -> None:
        promtool("check", "metrics", given=full_page())


def test_without_an_installation_or_prometheus_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["dashboards", "--var", str(tmp_path)])
    monkeypatch.setattr(shutil, "which", lambda _name: "/usr/bin/prometheus")
    with pytest.raises(SystemExit, match=r"no installation is running in \S+: start one with `make run`"):
        beside.main()
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(SystemExit, match="Prometheus is not installed here"):
        beside.main()
    assert capsys.readouterr() == ("", "")


def test_it_scrapes_the_running_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: "/usr/bin/prometheus")
    (tmp_path / "run.json").write_text('{"metrics_url": "http://127.0.0.1:31415/metrics"}')
    started = beside.command(tmp_path, 9091)
    assert started[0] == "/usr/bin/prometheus"
    assert "--web.listen-address=127.0.0.1:9091" in started
    written = (tmp_path / "prometheus/prometheus.yml").read_text("utf-8")
    assert 'targets: ["127.0.0.1:31415"]' in written
    assert "- rules/*.yml" in written
    rules = (tmp_path / "prometheus/rules/alerts.yml").read_text("utf-8")
    addresses = re.findall(r"runbook_url: file://(\S+)", rules)
    assert len(addresses) == len(NAMES)
    assert all(Path(address).is_file() for address in addresses)
    assert "9464" not in written.replace("--config.file", "")
