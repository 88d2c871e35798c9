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
            what="Hosts, reserves included.",
        ),
        number(
            "Shards without owner",
            "max(stanchion_shards_unowned)",
            what="Messages for their cards are answered with 91 until a host owns them.",
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
            what="Cores used; one event loop can use at most 1.",
        ),
        lines(
            "Event loop lag p99",
            {
                "{{process}}": "histogram_quantile(0.99, sum by (process, le) "
                f"(rate(stanchion_loop_lag_seconds_bucket[{RATE}])))"
            },
            "s",
            what="Delay of a timer in the event loop.",
        ),
        lines(
            "Largest memory by process",
            {"{{process}}": "stanchion_process_resident_bytes_max"},
            "bytes",
            what="Largest resident memory since the start of the process.",
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
            what="All commands that owners execute, authorizations included.",
        ),
        lines(
            "Refused commands",
            {"{{reason}}": f"sum by (reason) (rate(stanchion_refusals_total[{RATE}]))"},
            "ops",
            what="overloaded: queue full; not_owner: sent on to the new owner; deadline: too late.",
        ),
        lines(
            "Waiting",
            {
                "undurable, {{process}}": "stanchion_undurable_commands",
                "open, {{process}}": "stanchion_open_commands",
            },
            what="undurable: decided, not committed yet; open: sent, without a reply yet.",
        ),
        lines(
            "Shards by host",
            {"{{process}}": "stanchion_shards"},
            what="The hosts own 256 shards in total.",
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
            what="client_gone: the client disconnected before the answer.",
            stacked=True,
        ),
        latencies(
            "Latency",
            "stanchion_rest_seconds",
            what="From a request's headers to the end of its answer.",
        ),
        latencies(
            "Wait for a connection",
            "stanchion_pool_wait_seconds",
            what="Time that a request waits for a connection of the API server's pool.",
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
            what="Size of the journal with its indexes.",
        ),
        lines(
            "A failover can lose decisions",
            {"possible": "max(stanchion_data_loss_possible)"},
            "short",
            what="1 while a standby of PostgreSQL's primary is not synchronous.",
        ),
        lines(
            "Journal rows",
            {"rows": f"sum(rate(stanchion_journal_rows_total[{RATE}]))"},
            "ops",
            what="One row for each command that changed a card or a programme.",
        ),
        lines(
            "Rows deleted after their retention period",
            {"rows": f"sum(rate(stanchion_rows_expired_total[{RATE}]))"},
            "ops",
            what="Events, deliveries, stored answers, tokens and tombstones.",
        ),
        lines(
            "Simulated network",
            {
                "cleared automatically": f"sum(rate(stanchion_network_cleared_total[{RATE}]))",
                "records given up": f"sum(increase(stanchion_network_lost_moves_total[{RATE}]))",
            },
            what="Test mode only.",
        ),
    ]
