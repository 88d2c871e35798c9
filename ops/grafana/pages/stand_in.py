"""Dashboard: delegated decisions, stand-in and outages."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from ops.grafana.panels import RATE, Panel, lines, number, page


def stand_in() -> Dashboard:
    """Dashboard: delegated decisions, stand-in and outages."""
    return page(
        "stand-in",
        "Stanchion: stand-in",
        "Decisions in place of programmes whose own endpoint gives no usable answer.",
        {
            "Now": _now(),
            "Exposure": _exposure(),
            "Who decides": _who_decides(),
        },
    )


def _now() -> list[Panel]:
    return [
        number(
            "Outages",
            "sum(stanchion_outages_open)",
            what="Programmes whose decision endpoint gives no usable answer.",
        ),
        number(
            "Stand-in decisions each second",
            f"sum(rate(stanchion_stand_ins_total[{RATE}]))",
            "ops",
            what="Approvals and declines.",
        ),
        number(
            "Unusable answers",
            f'sum(rate(stanchion_programme_answers_total{{answer="unusable"}}[{RATE}]))'
            f' / sum(rate(stanchion_programme_answers_total{{answer!="late"}}[{RATE}]))',
            "percentunit",
            what="Share of the calls to decision endpoints.",
        ),
        number(
            "Outages ended today",
            "sum(increase(stanchion_outages_ended_total[1d]))",
            what="Each outage has a budget of its own, so a flapping endpoint can use several.",
        ),
    ]


def _exposure() -> list[Panel]:
    return [
        lines(
            "Used budget of open outages",
            {"{{currency}}": "sum by (currency) (stanchion_outage_exposure_minor) / 100"},
            what="Total of the used budgets, in the currency's main unit.",
        ),
        lines(
            "Exposure of the last day",
            {
                "{{currency}}": "sum by (currency) "
                "(increase(stanchion_stand_in_exposure_minor_total[1d])) / 100"
            },
            what="Amount approved in stand-in in all outages, in the currency's main unit.",
        ),
    ]


def _who_decides() -> list[Panel]:
    return [
        lines(
            "Decisions by decider",
            {"{{decided_by}}": f"sum by (decided_by) (rate(stanchion_decisions_total[{RATE}]))"},
            "ops",
            what="platform: the platform's rules; programme: its endpoint; stand_in: the stand-in rules.",
            stacked=True,
        ),
        lines(
            "Stand-in decisions by rule",
            {"{{rule}}, {{trigger}}": f"sum by (rule, trigger) (rate(stanchion_stand_ins_total[{RATE}]))"},
            "ops",
            what="within_ceilings approves, at the programme's risk; every other rule declines.",
            stacked=True,
        ),
        lines(
            "Answers of decision endpoints",
            {"{{answer}}": f"sum by (answer) (rate(stanchion_programme_answers_total[{RATE}]))"},
            "ops",
            what="An unusable answer triggers stand-in. A late answer was counted as unusable before.",
            stacked=True,
        ),
    ]
