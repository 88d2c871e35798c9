"""Every metric, named in one place, and how the figures of all processes become one page for Prometheus.

Processes count in plain integers where things happen; nothing on the decision path knows of Prometheus. At
a scrape each process hands over its figures by name and the exporter adds a ``process`` label. No label
ever holds an id of a customer's thing.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

Figures = dict[str, float]

METRICS: Final[dict[str, tuple[Literal["counter", "gauge"], str]]] = {
    "stanchion_process_id": ("gauge", "The process's id on its machine."),
    "stanchion_process_serving": ("gauge", "1 once the process's role has started, else 0."),
    "stanchion_process_cpu_seconds": ("counter", "CPU time of the process, user and system, in seconds."),
    "stanchion_process_resident_bytes_max": (
        "gauge",
        "Largest resident memory so far, in bytes.",
    ),
    "stanchion_commands": ("counter", "Commands decided by the shard host."),
    "stanchion_commits": ("counter", "Transactions committed by the shard host."),
    "stanchion_undurable_commands": ("gauge", "Commands decided and not yet durable."),
    "stanchion_active_cards": ("gauge", "Cards in the memory of the shard host."),
    "stanchion_shards": ("gauge", "Shards the host owns."),
    "stanchion_takeovers": ("counter", "Shard hosts that were lost and replaced as owners."),
    "stanchion_shards_unowned": ("gauge", "Shards that no living host owns."),
    "stanchion_wire_connections": ("gauge", "ISO 8583 connections that are open."),
    "stanchion_wire_requests": ("counter", "ISO 8583 requests received."),
    "stanchion_wire_malformed": ("counter", "Frames that could not be decoded."),
    "stanchion_wire_answered": ("counter", "Authorizations answered by an owner in time."),
    "stanchion_wire_expired": ("counter", "Authorizations answered with 91 at the deadline."),
    "stanchion_wire_late_approvals": ("counter", "Approvals that came after the network had been told 91."),
    "stanchion_wire_undone": (
        "counter",
        "Approvals, certain or possible, that the edge has reversed itself.",
    ),
    "stanchion_wire_undoing": ("gauge", "Reversals of the edge's own that no owner has answered yet."),
    "stanchion_network_cleared": ("counter", "Sales that the simulated network has presented by itself."),
    "stanchion_network_lost_moves": (
        "counter",
        "Records of the simulated network that were given up.",
    ),
    "stanchion_open_commands": ("gauge", "Commands in the process's router that have no reply yet."),
}


def process_figures() -> Figures:
    """What every process can say of itself."""
    return {
        "stanchion_process_id": os.getpid(),
        "stanchion_process_cpu_seconds": time.process_time(),
        "stanchion_process_resident_bytes_max": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def exposition(figures: Mapping[str, Figures]) -> bytes:
    """Prometheus' text format for the figures of each process by its name; unknown names are a fault."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Merged(figures))
    return generate_latest(registry)


class _Merged(Collector):
    def __init__(self, figures: Mapping[str, Figures]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        for name, (kind, help_) in METRICS.items():
            family: CounterMetricFamily | GaugeMetricFamily
            family = (CounterMetricFamily if kind == "counter" else GaugeMetricFamily)(
                name, help_, labels=["process"]
            )
            for process, figures in self._figures.items():
                if name in figures:
                    family.add_metric([process], figures[name])
            yield family
