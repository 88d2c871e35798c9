"""Panels in one style: a panel needs only a title, queries and a unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    prometheus,
    stat,
    timeseries,
)
from grafana_foundation_sdk.models.common import (
    BigValueGraphMode,
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, DataSourceRef

Unit = Literal["short", "ops", "s", "bytes", "percentunit", "currencyEUR", "decbytes"]
Panel = stat.Panel | timeseries.Panel

SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${source}")
WIDTH: Final = 24
QUANTILES: Final = (0.5, 0.9, 0.99)
RATE: Final = "$__rate_interval"
"""The window of rates, which Grafana derives from the scrape interval and the screen width."""


def number(title: str, query: str, unit: Unit = "short", *, what: str) -> stat.Panel:
    """The current value of one figure, a quarter of a row wide. ``what`` explains it."""
    return (
        stat.Panel()
        .title(title)
        .description(what)
        .datasource(SOURCE)
        .unit(unit)
        .graph_mode(BigValueGraphMode.AREA)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .with_target(_target("A", query, ""))
        .height(4)
        .span(WIDTH // 4)
    )


def lines(
    title: str,
    queries: Mapping[str, str],
    unit: Unit = "short",
    *,
    what: str,
    stacked: bool = False,
) -> timeseries.Panel:
    """Curves, half a row wide; ``queries`` maps legends (Grafana templates) to PromQL."""
    panel = (
        timeseries.Panel()
        .title(title)
        .description(what)
        .datasource(SOURCE)
        .unit(unit)
        .min(0)
        .line_width(1)
        .fill_opacity(20 if stacked else 5)
        .legend(
            common.VizLegendOptions()
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
        .height(8)
        .span(WIDTH // 2)
    )
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    for reference, (legend, query) in zip("ABCDEFGH", queries.items(), strict=False):
        panel = panel.with_target(_target(reference, query, legend))
    return panel


def latencies(title: str, metric: str, *, what: str) -> timeseries.Panel:
    """The quantiles of a histogram of seconds, over all processes."""
    queries = {
        f"p{share * 100:g}": (
            f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket[$__rate_interval])))"
        )
        for share in QUANTILES
    }
    return lines(title, queries, "s", what=what)


def page(name: str, title: str, what: str, rows: Mapping[str, Sequence[Panel]]) -> dashboard.Dashboard:
    """A dashboard whose user chooses the data source, so that it works in every Grafana."""
    built = (
        dashboard.Dashboard(title)
        .uid(f"stanchion-{name}")
        .description(what)
        .tags(["stanchion"])
        .readonly()
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .with_variable(dashboard.DatasourceVariable("source").label("Data source").type("prometheus"))
    )
    for heading, panels in rows.items():
        built = built.with_row(dashboard.Row(heading))
        for panel in panels:
            built = built.with_panel(panel)
    return built


def _target(reference: str, query: str, legend: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().ref_id(reference).expr(query).legend_format(legend).datasource(SOURCE)
