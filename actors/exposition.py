"""The text format of Prometheus for the figures of all processes.

Apart from ``actors.metrics``, because only the process that answers scrapes needs the library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from actors.metrics import BUCKETS, LABELS, METRICS, SECONDS, Distribution, Figure, Figures, Labels


def exposition(figures: Mapping[str, Figures]) -> bytes:
    """The figures of all processes, by process name, in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Merged(figures))
    return generate_latest(registry)


class _Merged(Collector):
    def __init__(self, figures: Mapping[str, Figures]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        for name, (kind, help_) in METRICS.items():
            labels = ("process", *LABELS.get(name, ()))
            family: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
            family = _FAMILIES[kind](name, help_, labels=labels)
            for process, figures in self._figures.items():
                for values, figure in _series(figures.get(name)):
                    _add(family, (process, *values), figure)
            yield family


_FAMILIES: Final = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


def _series(figure: Figure | None) -> list[tuple[Labels, float | Distribution]]:
    if figure is None:
        return []
    return list(figure.items()) if isinstance(figure, dict) else [((), figure)]


def _add(
    family: CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily,
    labels: Labels,
    figure: float | Distribution,
) -> None:
    if not isinstance(family, HistogramMetricFamily):
        assert not isinstance(figure, Distribution), family.name
        family.add_metric(labels, figure)
        return
    assert isinstance(figure, Distribution), family.name
    bounds = [str(float(bound)) for bound in BUCKETS.get(family.name, SECONDS)]
    cumulative = accumulate(figure.counts)
    family.add_metric(labels, list(zip((*bounds, "+Inf"), cumulative, strict=True)), figure.total)
