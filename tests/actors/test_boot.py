"""The processes of an installation: factories, names and niceness."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from actors.boot import DELIVERY_NICENESS, processes
from actors.cluster.hosts import FACTORY
from actors.placement import ProcessSpec
from actors.settings import Settings
from ops.cli import API_FACTORY


@pytest.fixture
def specs(tmp_path: Path) -> list[ProcessSpec]:
    return processes(Settings.load(var_dir=tmp_path, dispatchers=2))


def test_each_factory_can_be_imported(specs: list[ProcessSpec]) -> None:
    for factory in (*(spec.factory for spec in specs), FACTORY, API_FACTORY):
        module, _, attribute = factory.partition(":")
        assert callable(getattr(import_module(module), attribute))


def test_only_delivery_processes_have_a_lower_priority(specs: list[ProcessSpec]) -> None:
    assert [spec.name for spec in specs] == [
        "coordinator",
        "coordinator-2",
        "edge",
        "network",
        "network-2",
        "relay",
        "relay-2",
        "dispatcher-0",
        "dispatcher-1",
    ]
    assert {spec.name for spec in specs if spec.niceness == DELIVERY_NICENESS} == {
        "relay",
        "relay-2",
        "dispatcher-0",
        "dispatcher-1",
    }
