"""The deployment files say what the code knows: settings, ports, files, commands. Their formats are for
``ops/deploy/validate.py``."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from actors.settings import PREFIX, Settings
from ops.cli import app

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "ops" / "deploy"
CHART = DEPLOY / "helm" / "stanchion"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc"))
PORTS = ("api_port", "vision_port", "iso8583_port", "metrics_port")


def defaults() -> dict[str, int]:
    return {name.removesuffix("_port"): Settings.model_fields[name].default for name in PORTS}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return loaded


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_variable_is_a_setting(path: Path) -> None:
    named = set(re.findall(r"STANCHION_[A-Z0-9_]+", path.read_text()))
    assert named <= {PREFIX + name.upper() for name in Settings.model_fields}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_command_exists(path: Path) -> None:
    spoken = set(re.findall(r"(?<=[;&(\" ])stanchion ([a-z]+)(?= |\n|$|\")", path.read_text()))
    assert spoken <= set(get_command(app).commands) | {"on"}  # type: ignore[attr-defined]


def test_the_image_is_made_of_files_that_are_there() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    copied = [
        line.split()[1:-1] for line in text.splitlines() if line.startswith("COPY") and "--from" not in line
    ]
    names = [name for line in copied for name in line]
    assert {"engine", "actors", "api", "ops"} <= set(names)
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_the_image_shows_the_ports_of_the_settings() -> None:
    exposed = re.search(r"^EXPOSE (.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert exposed is not None
    assert set(map(int, exposed[1].split())) == set(defaults().values())


def test_compose_publishes_the_ports_on_this_machine_alone(compose: dict[str, Any]) -> None:
    published = compose["services"]["stanchion"]["ports"]
    assert published == [f"127.0.0.1:{port}:{port}" for port in defaults().values()]
    assert not any("ports" in compose["services"][name] for name in ("postgres", "valkey"))


def test_compose_settings_are_read(compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    key = "A" * 43 + "="
    secrets = {"POSTGRES_PASSWORD": "geheim", "STANCHION_MASTER_KEY": key}
    for name, value in compose["services"]["stanchion"]["environment"].items():
        filled = re.sub(r"\$\{(\w+):\?[^}]*\}", lambda match: secrets[match[1]], str(value))
        filled = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", filled)
        monkeypatch.setenv(name, filled)
    settings = Settings.load()
    assert settings.database_dsn == "postgresql://stanchion:geheim@postgres:5432/stanchion"
    assert settings.redis_dsn == "redis://valkey:6379/0"
    assert settings.vision_address == f"http://localhost:{settings.vision_port}"
    asked = set(re.findall(r"^([A-Z_]+)=$", (DEPLOY / "example.env").read_text(), re.MULTILINE))
    assert asked == set(secrets)


def test_the_chart_has_a_service_for_each_port_of_a_node() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    ports = {name: service["port"] for name, service in values["service"].items()}
    assert ports == {name: port for name, port in defaults().items() if name != "metrics"}
    text = (CHART / "templates" / "nodes.yaml").read_text()
    assert all(f"{{name: {name}, containerPort: {port}}}" in text for name, port in ports.items())


def test_the_chart_settings_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for name, value in values["settings"].items():
        monkeypatch.setenv(name, value)
    assert Settings.load().hosts == int(values["settings"]["STANCHION_HOSTS"])


def test_the_chart_is_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == project["version"]
