"""`make dashboards` (`python -m ops.dashboards`): Prometheus and Grafana for the running installation, with
data source, dashboards and alert rules.

It starts the programs that this machine has, on loopback, with their data in the installation's state folder;
without Grafana, Prometheus alone. Anyone on this machine may look at the dashboards: there is no sign-in.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ops.prometheus.__main__ import PORT as PROMETHEUS_PORT
from ops.prometheus.__main__ import NoPrometheusError
from ops.prometheus.__main__ import command as prometheus_command

GRAFANA: Final = Path(__file__).parent / "grafana"
GRAFANA_PORT: Final = 3000
HOMES: Final = ("/usr/share/grafana", "/opt/homebrew/share/grafana", "/usr/local/share/grafana")
"""Where packages of Grafana put its pages and defaults."""
DEFAULTS: Final = "conf/defaults.ini"
POLL_SECONDS: Final = 0.2
STOP_SECONDS_MAX: Final = 10.0

Which = Callable[[str], str | None]


def grafana_command(which: Which = shutil.which, homes: Sequence[str] = HOMES) -> list[str] | None:
    """The command that starts this machine's Grafana; ``None`` if it has none."""
    for name, subcommand in (("grafana", ["server"]), ("grafana-server", [])):
        program = which(name)
        if program is None:
            continue
        beside = str(Path(program).resolve().parents[1])
        home = next((home for home in (beside, *homes) if (Path(home) / DEFAULTS).is_file()), None)
        return [program, *subcommand, *([] if home is None else ["--homepath", home])]
    return None


def grafana_environment(var_dir: Path, port: int, prometheus_url: str) -> Mapping[str, str]:
    """Grafana's settings: loopback only, pages without sign-in, no account, no calls to other servers."""
    folder = var_dir / "grafana"
    return {
        "GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES": "false",
        "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
        "GF_ANALYTICS_REPORTING_ENABLED": "false",
        "GF_AUTH_ANONYMOUS_ENABLED": "true",
        "GF_AUTH_ANONYMOUS_ORG_ROLE": "Viewer",
        "GF_AUTH_DISABLE_LOGIN_FORM": "true",
        "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH": str(GRAFANA / "json/authorizations.json"),
        "GF_LOG_LEVEL": "warn",
        "GF_NEWS_NEWS_FEED_ENABLED": "false",
        "GF_PATHS_DATA": str(folder / "data"),
        "GF_PATHS_LOGS": str(folder / "log"),
        "GF_PATHS_PLUGINS": str(folder / "plugins"),
        "GF_PATHS_PROVISIONING": str(GRAFANA / "provisioning"),
        "GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION": "true",
        "GF_SERVER_HTTP_ADDR": "127.0.0.1",
        "GF_SERVER_HTTP_PORT": str(port),
        "DASHBOARDS_FOLDER": str(GRAFANA / "json"),
        "PROMETHEUS_URL": prometheus_url,
    }


def run(commands: Sequence[Sequence[str]], environment: Mapping[str, str]) -> str | None:
    """Run the programs until SIGINT or SIGTERM, or until one of them ends; then stop the others. Returns the
    name of the program that ended by itself."""
    asked = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal asked
        asked = True

    previous = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    # In sessions of their own, so that Ctrl-C reaches this process only.
    processes = [
        subprocess.Popen(command, env=os.environ | environment, start_new_session=True)
        for command in commands
    ]
    try:
        while not asked:
            ended = [process for process in processes if process.poll() is not None]
            if ended:
                return Path(commands[processes.index(ended[0])][0]).name
            time.sleep(POLL_SECONDS)
        return None
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for number, handler in previous.items():
            signal.signal(number, handler)


def main() -> None:
    """Entry point of the command."""
    parser = argparse.ArgumentParser(prog="python -m ops.dashboards", description=__doc__)
    parser.add_argument(
        "--var", type=Path, default=Path("var"), help="the installation's folder [%(default)s]"
    )
    parser.add_argument("--port", type=int, default=PROMETHEUS_PORT, help="port of Prometheus [%(default)s]")
    parser.add_argument(
        "--grafana-port", type=int, default=GRAFANA_PORT, help="port of Grafana [%(default)s]"
    )
    options = parser.parse_args()
    var_dir = options.var.absolute()
    try:
        commands = [prometheus_command(var_dir, options.port)]
    except NoPrometheusError as failure:
        raise SystemExit(f"dashboards: {failure}") from None
    prometheus_url = f"http://127.0.0.1:{options.port}"
    print(f"Prometheus: {prometheus_url}  (Ctrl-C stops it)")
    grafana = grafana_command()
    if grafana is None:
        print(
            f"Grafana is not installed here. Import {GRAFANA / 'json'} elsewhere, with this data source.",
            flush=True,
        )
    else:
        commands.append(grafana)
        print(f"Grafana:    http://127.0.0.1:{options.grafana_port}", flush=True)
    environment = grafana_environment(var_dir, options.grafana_port, prometheus_url)
    ended = run(commands, environment)
    if ended is not None:
        raise SystemExit(f"dashboards: {ended} has ended")


if __name__ == "__main__":
    main()
