"""`python -m ops.prometheus` starts the machine's own Prometheus beside the installation that runs.

It scrapes every five seconds, evaluates the rules of this folder and keeps what it has seen in ``prometheus``
inside the installation's folder. Grafana is given its address, and the dashboards of ``ops/grafana/json``.
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
DASHBOARDS: Final = FOLDER.parent / "grafana/json"
SCRAPE_SECONDS: Final = 5
PORT: Final = 9090


class NoPrometheusError(Exception):
    """There is nothing to start, or nothing to scrape. The message is one line."""


def configuration(target: str, seconds: int = SCRAPE_SECONDS) -> str:
    """The scrape configuration of this folder for an installation whose metrics are at ``target``
    (``host:port``), usable from any folder."""
    text = (FOLDER / "prometheus.yml").read_text("utf-8")
    text = text.replace("127.0.0.1:9464", target).replace("15s", f"{seconds}s")
    return text.replace("rules/*.yml", f"{FOLDER}/rules/*.yml")


def metrics_address(var_dir: Path) -> str:
    """Where the installation of ``var_dir`` tells its metrics. Raises NoPrometheusError when none runs."""
    try:
        url = str(json.loads((var_dir / RUN_FILE).read_text("utf-8"))["metrics_url"])
    except OSError:
        raise NoPrometheusError(f"no installation runs in {var_dir}: start one with `make run`") from None
    return url.removeprefix("http://").removesuffix("/metrics")


def command(var_dir: Path, port: int) -> list[str]:
    """What starts Prometheus on ``port`` of this machine alone; its configuration is written. Raises
    NoPrometheusError."""
    program = shutil.which("prometheus")
    if program is None:
        raise NoPrometheusError("Prometheus is not installed here (Debian: apt install prometheus)")
    target = metrics_address(var_dir)
    folder = var_dir / "prometheus"
    folder.mkdir(exist_ok=True)
    (folder / "prometheus.yml").write_text(configuration(target), "utf-8")
    return [
        program,
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]


def main() -> None:
    """Become Prometheus; Ctrl-C ends it."""
    parser = argparse.ArgumentParser(prog="python -m ops.prometheus", description=__doc__)
    parser.add_argument(
        "--var", type=Path, default=Path("var"), help="the installation's folder [%(default)s]"
    )
    parser.add_argument("--port", type=int, default=PORT, help="where it listens [%(default)s]")
    options = parser.parse_args()
    try:
        started = command(options.var.absolute(), options.port)
    except NoPrometheusError as failure:
        raise SystemExit(f"dashboards: {failure}") from None
    print(f"Prometheus: http://127.0.0.1:{options.port}  (Ctrl-C stops it)")
    print(f"Dashboards: {DASHBOARDS}, to be imported into Grafana with it as the data source", flush=True)
    os.execv(started[0], started)


if __name__ == "__main__":
    main()
