"""The figures of all processes on one page for Prometheus."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from actors.exposition import exposition
from actors.metrics import (
    BUCKETS,
    LABELS,
    METRICS,
    Distribution,
    Figures,
    Histogram,
    Labels,
)


def samples(figures: dict[str, Figures], family: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """The samples of one metric by sample name and label values."""
    page = exposition(figures).decode()
    families = {each.name: each for each in text_string_to_metric_families(page)}
    order = ("process", *LABELS.get(family, ()), "le")
    return {
        (each.name, tuple(each.labels[label] for label in order if label in each.labels)): each.value
        for each in families[family].samples
    }


def test_each_figure_is_labelled_with_its_process() -> None:
    page = exposition({"host-1": {"stanchion_commands": 3}, "host-2": {"stanchion_commands": 4}}).decode()
    families = {family.name: family for family in text_string_to_metric_families(page)}
    found = {sample.labels["process"]: sample.value for sample in families["stanchion_commands"].samples}
    assert found == {"host-1": 3, "host-2": 4}
    assert families["stanchion_commands"].type == "counter"


def test_labels_are_added_to_the_process() -> None:
    decisions: dict[Labels, float] = {
        ("approved", "", "platform"): 7,
        ("declined", "insufficient_funds", "stand_in"): 2,
    }
    assert samples({"h": {"stanchion_decisions": decisions}}, "stanchion_decisions") == {
        ("stanchion_decisions_total", ("h", "approved", "", "platform")): 7,
        ("stanchion_decisions_total", ("h", "declined", "insufficient_funds", "stand_in")): 2,
    }


def test_histogram_buckets_are_cumulative() -> None:
    sizes = Histogram(BUCKETS["stanchion_commit_batch_commands"])
    for size in (1, 2, 2, 3, 256, 257):
        sizes.observe(size)
    found = samples(
        {"h": {"stanchion_commit_batch_commands": sizes.figure()}}, "stanchion_commit_batch_commands"
    )
    counts = {labels[1]: value for (name, labels), value in found.items() if name.endswith("_bucket")}
    assert (counts["1.0"], counts["2.0"], counts["4.0"], counts["256.0"], counts["+Inf"]) == (1, 3, 4, 5, 6)
    assert found[("stanchion_commit_batch_commands_sum", ("h",))] == 521
    assert found[("stanchion_commit_batch_commands_count", ("h",))] == 6


def test_histogram_can_have_labels() -> None:
    spent = Histogram()
    spent.observe(0.02)
    figure: dict[Labels, Distribution] = {("get_card",): spent.figure()}
    found = samples({"api": {"stanchion_rest_seconds": figure}}, "stanchion_rest_seconds")
    assert found[("stanchion_rest_seconds_bucket", ("api", "get_card", "0.025"))] == 1
    assert found[("stanchion_rest_seconds_bucket", ("api", "get_card", "0.01"))] == 0


@pytest.mark.parametrize(
    "figures",
    [
        {"stanchion_commands": Distribution((1,), 1.0)},
        {"stanchion_wire_seconds": 1.0},
        {"stanchion_wire_seconds": Distribution((1, 2), 1.0)},
    ],
)
def test_figure_of_the_wrong_kind_is_refused(figures: Figures) -> None:
    with pytest.raises((AssertionError, ValueError)):
        exposition({"h": figures})


def test_every_metric_is_described() -> None:
    page = exposition({}).decode()
    families = {family.name: family for family in text_string_to_metric_families(page)}
    assert families.keys() == METRICS.keys()
    assert all(family.documentation for family in families.values())
