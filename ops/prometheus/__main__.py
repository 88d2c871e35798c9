"""`python -m ops.prometheus` starts the machine's own Prometheus for a running installation.

It scrapes every five seconds, evaluates the rules of this folder and stores its data in ``prometheus`` inside
the installation's state folder. Add its address as a data source to Grafana and import the dashboards of
``ops/grafana/json``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from pathlib import Path
from typing import Final

from ops.supervision.installation import RUN_FILE

FOLDER: Final = Path(__file__).parent
ROOT: Final = FOLDER.parents[1]
DASHBOARDS: Final = FOLDER.parent / "grafana/json"
SCRAPE_SECONDS: Final = 5
PORT: Final = 9090


class NoPrometheusError(Exception):
    """Prometheus is not installed, or no installation runs. The message is one line."""


def configuration(target: str, seconds: int = SCRAPE_SECONDS) -> str:
    """This folder's scrape configuration for an installation with metrics at ``target`` (``host:port``), with
    the rules in the folder ``rules`` beside it."""
    text = (FOLDER / "prometheus.yml").read_text("utf-8")
    return text.replace("127.0.0.1:9464", target).replace("15s", f"{seconds}s")


def write_rules(folder: Path) -> None:
    """Write the rules to ``rules`` in ``folder``, with the addresses of this checkout's runbooks."""
    rules = folder / "rules"
    rules.mkdir(exist_ok=True)
    for path in (FOLDER / "rules").glob("*.yml"):
        text = path.read_text("utf-8").replace("runbook_url: ", f"runbook_url: {ROOT.as_uri()}/")
        (rules / path.name).write_text(text, "utf-8")


def metrics_address(var_dir: Path) -> str:
    """``host:port`` of the metrics of the installation in ``var_dir``. NoPrometheusError if none runs."""
    try:
        url = str(json.loads((var_dir / RUN_FILE).read_text("utf-8"))["metrics_url"])
    except OSError:
        raise NoPrometheusError(
            f"no installation is running in {var_dir}: start one with `make run`"
        ) from None
    return url.removeprefix("http://").removesuffix("/metrics")


def command(var_dir: Path, port: int) -> list[str]:
    """Write the configuration; return the command that starts Prometheus on ``port`` of the loopback
    interface. Raises NoPrometheusError."""
    program = shutil.which("prometheus")
    if program is None:
        raise NoPrometheusError("Prometheus is not installed here (Debian: apt install prometheus)")
    target = metrics_address(var_dir)
    folder = var_dir / "prometheus"
    folder.mkdir(exist_ok=True)
    (folder / "prometheus.yml").write_text(configuration(target), "utf-8")
    write_rules(folder)
    return [
        program,
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]


def main() -> None:
    """Replace this process by Prometheus; Ctrl-C ends it."""
    parser = argparse.ArgumentParser(prog="python -m ops.prometheus", description=__doc__)
    parser.add_argument(
        "--var", type=Path, default=Path("var"), help="the installation's folder [%(default)s]"
    )
    parser.add_argument("--port", type=int, default=PORT, help="its port [%(default)s]")
    options = parser.parse_args()
    try:
        started = command(options.var.absolute(), options.port)
    except NoPrometheusError as failure:
        raise SystemExit(f"dashboards: {failure}") from None
    print(f"Prometheus: http://127.0.0.1:{options.port}  (Ctrl-C stops it)")
    print(f"Dashboards: {DASHBOARDS}, import them into Grafana with this data source", flush=True)
    os.execv(started[0], started)


if __name__ == "__main__":
    main()
