"""Prometheus and Grafana beside an installation: their commands, settings and files, and how they end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from ops import dashboards
from ops.dashboards import GRAFANA, grafana_command, grafana_environment, run

Which = Callable[[str], str | None]
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def where(**programs: str) -> Which:
    """``shutil.which`` on a machine with these programs."""
    return programs.get


def test_grafana_is_started_with_its_home(tmp_path: Path) -> None:
    home = tmp_path / "share"
    (home / "conf").mkdir(parents=True)
    (home / "conf/defaults.ini").touch()
    (home / "bin").mkdir()
    program = home / "bin/grafana"
    program.touch()
    assert grafana_command(where(grafana=str(program))) == [
        str(program),
        "server",
        "--homepath",
        str(home),
    ]
    old = tmp_path / "sbin/grafana-server"
    assert grafana_command(lambda name: str(old) if name == "grafana-server" else None, [str(home)]) == [
        str(old),
        "--homepath",
        str(home),
    ]
    assert grafana_command(where(grafana=str(old)), []) == [str(old), "server"]
    assert grafana_command(where()) is None


def test_grafana_listens_on_loopback_without_accounts(tmp_path: Path) -> None:
    settings = grafana_environment(tmp_path, 3001, "http://127.0.0.1:9091")
    assert (settings["GF_SERVER_HTTP_ADDR"], settings["GF_SERVER_HTTP_PORT"]) == ("127.0.0.1", "3001")
    assert settings["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert settings["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"
    assert Path(settings["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]).is_file()
    assert all(settings[f"GF_PATHS_{name}"].startswith(str(tmp_path)) for name in ("DATA", "LOGS", "PLUGINS"))


def test_provisioned_files_use_the_given_variables(tmp_path: Path) -> None:
    settings = grafana_environment(tmp_path, 3000, "http://127.0.0.1:9090")
    folder = Path(settings["GF_PATHS_PROVISIONING"])
    (source,) = yaml.safe_load((folder / "datasources/stanchion.yml").read_text())["datasources"]
    assert (source["type"], source["isDefault"]) == ("prometheus", True)
    assert source["url"].strip("${}") in settings
    (provider,) = yaml.safe_load((folder / "dashboards/stanchion.yml").read_text())["providers"]
    assert settings[provider["options"]["path"].strip("${}")] == str(GRAFANA / "json")


def test_programs_run_until_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_seconds: float) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(time, "sleep", interrupt)
    assert threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    assert run([SLEEP, SLEEP], {}) is None
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_program_that_ends_stops_the_others() -> None:
    assert run([SLEEP, [sys.executable, "-c", ""]], {}) == Path(sys.executable).name


def test_without_grafana_prometheus_starts_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"metrics_url": "http://127.0.0.1:31415/metrics"}))
    monkeypatch.setattr(shutil, "which", where(prometheus="/usr/bin/prometheus"))
    monkeypatch.setattr(dashboards, "grafana_command", lambda: None)
    started: list[str] = []
    monkeypatch.setattr(dashboards, "run", lambda commands, _: started.extend(each[0] for each in commands))
    monkeypatch.setattr("sys.argv", ["dashboards", "--var", str(tmp_path)])
    dashboards.main()
    assert started == ["/usr/bin/prometheus"]
    assert "Grafana is not installed here." in capsys.readouterr().out


def test_without_an_installation_there_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", where(prometheus="/usr/bin/prometheus"))
    monkeypatch.setattr("sys.argv", ["dashboards", "--var", str(tmp_path)])
    with pytest.raises(SystemExit, match="dashboards: no installation is running in"):
        dashboards.main()
