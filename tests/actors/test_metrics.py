"""The figures of all processes on one page."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from actors.metrics import METRICS, exposition, process_figures


def test_each_figure_stands_under_its_process() -> None:
    page = exposition({"host-1": {"stanchion_commands": 3}, "host-2": {"stanchion_commands": 4}}).decode()
    families = {family.name: family for family in text_string_to_metric_families(page)}
    samples = {sample.labels["process"]: sample.value for sample in families["stanchion_commands"].samples}
    assert samples == {"host-1": 3, "host-2": 4}
    assert families["stanchion_commands"].type == "counter"


def test_every_metric_is_described() -> None:
    page = exposition({}).decode()
    families = {family.name: family for family in text_string_to_metric_families(page)}
    assert families.keys() == METRICS.keys()
    assert all(family.documentation for family in families.values())


def test_every_process_knows_its_cpu_time() -> None:
    assert process_figures().keys() <= METRICS.keys()
