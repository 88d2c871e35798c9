"""The drills set up their cluster with the command lines of CLUSTER.md, and these commands exist."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer.main
from ray.scripts import scripts as ray

from actors.settings import PREFIX, Settings
from ops.chaos.environment import handbook as module
from ops.chaos.environment.handbook import FIRST, PAGE, filled, handbook
from ops.chaos.environment.nodes import ON_ONE_MACHINE, RayCluster
from ops.cli import app
from tests.ops.chaos.environment.test_nodes import VALUES
from tests.support.ops.pages import fence

TOOLS: dict[str, Any] = {"ray": ray.cli, "stanchion": typer.main.get_command(app)}


def commands() -> list[str]:
    """The commands that do not set variables."""
    page = handbook()
    return [page.head, page.joining, page.once[-1], *page.leaving]


@pytest.fixture
def cluster(tmp_path: Path) -> RayCluster:
    cluster = RayCluster(tmp_path, VALUES)
    cluster.address = "127.0.0.1:4242"
    return cluster


def test_drills_use_every_command_of_the_page() -> None:
    """No line of the page's two fences is left out."""
    page = handbook()
    commands = [
        *page.everywhere,
        *(page.head_variable, page.head, page.joining),
        *page.once,
        *page.leaving,
    ]
    shown = fence("ops/docs/CLUSTER.md", "Setting one up", "sh")
    shown += fence("ops/docs/CLUSTER.md", "Nodes that come and go", "sh")
    assert commands == [
        line for line in (each.partition("#")[0].strip() for each in shown.splitlines()) if line
    ]


@pytest.mark.parametrize("line", [*commands(), f"{handbook().joining} {ON_ONE_MACHINE}"])
def test_each_documented_command_accepts_its_options(line: str) -> None:
    tool, name, *arguments = shlex.split(line)
    TOOLS[tool].commands[name].make_context(name, list(arguments))


def test_every_documented_variable_is_a_setting() -> None:
    page = handbook()
    words = [
        word
        for line in (*page.everywhere, page.head_variable, *page.once[:-1])
        for word in line.removeprefix("export ").split()
    ]
    names = {word.partition("=")[0] for word in words}
    settings = {name.removeprefix(PREFIX).lower() for name in names if name.startswith(PREFIX)}
    assert settings <= set(Settings.__struct_fields__)
    assert names - {PREFIX + name.upper() for name in settings} == {
        "RAY_AUTH_MODE",
        "RAY_AUTH_TOKEN",
        *("RAY_worker_niceness", "RAY_task_events_report_interval_ms", "RAY_enable_metrics_collection"),
        *("RAY_gcs_rpc_server_reconnect_timeout_s", "RAY_REDIS_ADDRESS", "RAY_health_check_period_ms"),
        *("RAY_health_check_timeout_ms", "RAY_health_check_failure_threshold"),
    }


def test_all_placeholders_are_filled_and_servers_listen_on_loopback(cluster: RayCluster) -> None:
    script = cluster.script()
    assert "..." not in script
    assert "0.0.0.0" not in script
    assert FIRST not in script
    assert "export STANCHION_MASTER_KEY=key STANCHION_VAR_DIR='/tmp/a folder'\n" in script
    assert "STANCHION_ISO8583_PORT=" in script
    assert script == cluster.script(), "a second start uses the same ports"
    assert script.endswith("\nexec stanchion up --address 127.0.0.1:4242\n")


def test_a_missing_value_is_an_error() -> None:
    assert filled("export A=... B=https://... C=0", {"A": "1", "B": "2"}, "") == "export A=1 B=2 C=0"
    with pytest.raises(KeyError):
        filled("export A=...", {}, "")


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace("# Each of the others.\n", ""),
        lambda text: text.replace("ray start --head", "echo\nray start --head"),
        lambda text: text.replace("## Setting one up", "## Setting it up"),
    ],
)
def test_an_unexpected_form_of_the_page_is_an_error(
    damage: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page").write_text(damage(PAGE.read_text("utf-8")), "utf-8")
    monkeypatch.setattr(module, "PAGE", tmp_path / "page")
    with pytest.raises(ValueError, match="unpack"):
        handbook()
