"""Dashboard: processes, shards, commits and PostgreSQL."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from ops.grafana.panels import RATE, Panel, latencies, lines, number, page


def platform() -> Dashboard:
    """Dashboard: processes, shards, commits and PostgreSQL."""
    return page(
        "platform",
        "Stanchion: platform",
        "Processes, ownership, group commit, the REST API and the database.",
        {
            "Now": _now(),
            "Links": _links(),
            "Load": _load(),
            "Ownership and commit": _ownership_and_commit(),
            "REST": _rest(),
            "Books": _books(),
        },
    )


def _now() -> list[Panel]:
    return [
        number(
            "Shard hosts",
            "count(stanchion_shards)",
            what="Hosts that own shards.",
        ),
        number(
            "Shards without owner",
            "max(stanchion_shards_unowned)",
            what="Their cards are answered with 91 until a host has them.",
        ),
        number(
            "Takeovers in an hour",
            "sum(increase(stanchion_takeovers_total[1h]))",
            what="Hosts that were lost and replaced.",
        ),
        number(
            "Database",
            "max(stanchion_database_bytes)",
            "bytes",
            what="Size of all its tables.",
        ),
    ]


def _links() -> list[Panel]:
    return [
        lines(
            "Connections by link",
            {
                "open, {{link}}": "sum by (link) (stanchion_link_connections)",
                "signed on, {{link}}": "sum by (link) (stanchion_link_signed_on)",
            },
            what="Connections with networks and processors at all edges.",
        ),
        lines(
            "In flight by link",
            {"{{link}}": "sum by (link) (stanchion_link_in_flight)"},
            what="Messages without an answer.",
        ),
        lines(
            "Answers by link",
            {
                "{{link}}, {{mti}} {{response_code}}": "sum by (link, mti, response_code) "
                f"(rate(stanchion_link_answers_total[{RATE}]))"
            },
            "ops",
            what="By message type and response code.",
        ),
        lines(
            "Refused by link",
            {"{{link}}, {{reason}}": f"sum by (link, reason) (rate(stanchion_link_refused_total[{RATE}]))"},
            "ops",
            what="Messages that a link may not send, and connections that it may not open.",
        ),
    ]


def _load() -> list[Panel]:
    return [
        lines(
            "Processor time by process",
            {"{{process}}": f"rate(stanchion_process_cpu_seconds_total[{RATE}])"},
            what="1 is a whole core, which is all that one event loop can use.",
        ),
        lines(
            "Event loop lag p99",
            {
                "{{process}}": "histogram_quantile(0.99, sum by (process, le) "
                f"(rate(stanchion_loop_lag_seconds_bucket[{RATE}])))"
            },
            "s",
            what="How late the loop comes round.",
        ),
        lines(
            "Largest memory by process",
            {"{{process}}": "stanchion_process_resident_bytes_max"},
            "bytes",
            what="Resident memory at its highest.",
        ),
        lines(
            "Cards in memory",
            {"{{process}}": "stanchion_active_cards"},
            what="Active cards of each shard host.",
        ),
    ]


def _ownership_and_commit() -> list[Panel]:
    return [
        lines(
            "Commands",
            {
                "decided": f"sum(rate(stanchion_commands_total[{RATE}]))",
                "commits": f"sum(rate(stanchion_commits_total[{RATE}]))",
                "failed commits": f"sum(rate(stanchion_commit_failures_total[{RATE}]))",
            },
            "ops",
            what="Everything that owners execute, authorizations or not.",
        ),
        lines(
            "Turned away",
            {"{{reason}}": f"sum by (reason) (rate(stanchion_refusals_total[{RATE}]))"},
            "ops",
            what="overloaded: too much waits; not_owner: asked again elsewhere; deadline: too late.",
        ),
        lines(
            "Waiting",
            {
                "undurable, {{process}}": "stanchion_undurable_commands",
                "open, {{process}}": "stanchion_open_commands",
            },
            what="Decided and not yet durable; sent and not yet answered.",
        ),
        lines(
            "Shards by host",
            {"{{process}}": "stanchion_shards"},
            what="256 in all.",
            stacked=True,
        ),
    ]


def _rest() -> list[Panel]:
    return [
        lines(
            "Requests by operation",
            {"{{operation}}": f"sum by (operation) (rate(stanchion_rest_requests_total[{RATE}]))"},
            "ops",
            what="Operations as the API's description names them.",
            stacked=True,
        ),
        lines(
            "Answers by status",
            {"{{status}}": f"sum by (status) (rate(stanchion_rest_requests_total[{RATE}]))"},
            "ops",
            what="client_gone: the caller did not wait.",
            stacked=True,
        ),
        latencies(
            "Latency",
            "stanchion_rest_seconds",
            what="Headers to the end of the answer.",
        ),
        latencies(
            "Wait for a connection",
            "stanchion_pool_wait_seconds",
            what="Of requests that read or write PostgreSQL themselves.",
        ),
    ]


def _books() -> list[Panel]:
    return [
        lines(
            "Size",
            {
                "database": "max(stanchion_database_bytes)",
                "journal": "max(stanchion_journal_bytes)",
            },
            "bytes",
            what="With indexes.",
        ),
        lines(
            "Journal rows",
            {"rows": f"sum(rate(stanchion_journal_rows_total[{RATE}]))"},
            "ops",
            what="One for each command that changed something.",
        ),
        lines(
            "Rows deleted after their time",
            {"rows": f"sum(rate(stanchion_rows_expired_total[{RATE}]))"},
            "ops",
            what="Events, deliveries, stored answers and tokens.",
        ),
        lines(
            "Simulated network",
            {
                "presented by itself": f"sum(rate(stanchion_network_cleared_total[{RATE}]))",
                "records given up": f"sum(increase(stanchion_network_lost_moves_total[{RATE}]))",
            },
            what="Test mode only.",
        ),
    ]
