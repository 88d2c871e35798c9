"""What each dashboard asks. Every query is run against a real Prometheus by the tests."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from ops.grafana.panels import latencies, lines, number, page

RATE = "$__rate_interval"


def pages() -> dict[str, Dashboard]:
    """All dashboards by the name of their file."""
    return {
        "authorizations": authorizations(),
        "stand-in": stand_in(),
        "webhooks": webhooks(),
        "platform": platform(),
    }


def authorizations() -> Dashboard:
    """What networks and merchants notice."""
    return page(
        "authorizations",
        "Stanchion: authorizations",
        "Decisions, why they are declined, and how long they take on their way.",
        {
            "Now": [
                number(
                    "Decisions each second",
                    f"sum(rate(stanchion_decisions_total[{RATE}]))",
                    "ops",
                    what="Durable decisions on authorizations.",
                ),
                number(
                    "Declined",
                    "stanchion:declined:ratio5m",
                    "percentunit",
                    what="Share of the last five minutes' decisions.",
                ),
                number(
                    "Answered too late",
                    "stanchion:wire_expired:ratio5m",
                    "percentunit",
                    what="Share of requests on the wire that were answered with 91 at the deadline.",
                ),
                number(
                    "Wire p99",
                    "stanchion:wire_seconds:p99_5m",
                    "s",
                    what="One in a hundred answers takes longer.",
                ),
            ],
            "Decisions": [
                lines(
                    "By outcome",
                    {"{{outcome}}": f"sum by (outcome) (rate(stanchion_decisions_total[{RATE}]))"},
                    "ops",
                    what="Approved, partial approvals among them, and declined.",
                    stacked=True,
                ),
                lines(
                    "Declines by reason",
                    {
                        "{{reason}}": "sum by (reason) "
                        f'(rate(stanchion_decisions_total{{outcome="declined"}}[{RATE}]))'
                    },
                    "ops",
                    what="The first rule that failed.",
                    stacked=True,
                ),
            ],
            "Latency, from the outside in": [
                latencies(
                    "Wire",
                    "stanchion_wire_seconds",
                    what="Request to answer at the network edge.",
                ),
                latencies(
                    "Decision",
                    "stanchion_decision_seconds",
                    what="Arrival at the shard host to durable.",
                ),
                latencies("Commit", "stanchion_commit_seconds", what="One group commit."),
                lines(
                    "Commands in a commit",
                    {
                        "mean": f"sum(rate(stanchion_commit_batch_commands_sum[{RATE}]))"
                        f" / sum(rate(stanchion_commit_batch_commands_count[{RATE}]))"
                    },
                    what="Grows with the load: what was decided while the commit before was being flushed.",
                ),
            ],
            "The wire": [
                lines(
                    "Requests",
                    {
                        "received": f"sum(rate(stanchion_wire_requests_total[{RATE}]))",
                        "answered by owners": f"sum(rate(stanchion_wire_answered_total[{RATE}]))",
                        "answered with 91": f"sum(rate(stanchion_wire_expired_total[{RATE}]))",
                        "malformed": f"sum(rate(stanchion_wire_malformed_total[{RATE}]))",
                    },
                    "ops",
                    what="ISO 8583 messages at the network edge.",
                ),
                lines(
                    "Late approvals, and their reversal",
                    {
                        "late approvals": f"sum(increase(stanchion_wire_late_approvals_total[{RATE}]))",
                        "undone": f"sum(increase(stanchion_wire_undone_total[{RATE}]))",
                        "still to undo": "sum(stanchion_wire_undoing)",
                        "connections": "sum(stanchion_wire_connections)",
                    },
                    what="Approvals that came after a 91 are reversed by the edge itself.",
                ),
            ],
        },
    )


def stand_in() -> Dashboard:
    """Who decides, when programmes decide for themselves."""
    return page(
        "stand-in",
        "Stanchion: stand-in",
        "Decisions in place of programmes whose own endpoint gives no usable answer.",
        {
            "Now": [
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
                    what="Share of the questions to decision endpoints.",
                ),
                number(
                    "Outages ended today",
                    "sum(increase(stanchion_outages_ended_total[1d]))",
                    what="Each has zeroed its budget, so a flapping endpoint costs more than one.",
                ),
            ],
            "Exposure": [
                lines(
                    "Of outages under way",
                    {"{{currency}}": "sum by (currency) (stanchion_outage_exposure_minor) / 100"},
                    what="What of their budgets is used, in the currency's main unit.",
                ),
                lines(
                    "Created in a day",
                    {
                        "{{currency}}": "sum by (currency) "
                        "(increase(stanchion_stand_in_exposure_minor_total[1d])) / 100"
                    },
                    what="Approved in stand-in, over all outages; in the currency's main unit.",
                ),
            ],
            "Who decides": [
                lines(
                    "Decisions by decider",
                    {"{{decided_by}}": f"sum by (decided_by) (rate(stanchion_decisions_total[{RATE}]))"},
                    "ops",
                    what="platform: the rules here; programme: its endpoint; stand_in: we, in its place.",
                    stacked=True,
                ),
                lines(
                    "Stand-in decisions by rule",
                    {
                        "{{rule}}, {{trigger}}": "sum by (rule, trigger) "
                        f"(rate(stanchion_stand_ins_total[{RATE}]))"
                    },
                    "ops",
                    what="within_ceilings approves, at the programme's risk; everything else is a lost sale.",
                    stacked=True,
                ),
                lines(
                    "Answers of decision endpoints",
                    {"{{answer}}": f"sum by (answer) (rate(stanchion_programme_answers_total[{RATE}]))"},
                    "ops",
                    what="What is unusable triggers stand-in; what came late was unusable before.",
                    stacked=True,
                ),
            ],
        },
    )


def webhooks() -> Dashboard:
    """What customers are told, and when."""
    return page(
        "webhooks",
        "Stanchion: webhooks",
        "From committed events to receivers that have taken them.",
        {
            "Now": [
                number(
                    "Relay lag",
                    "max(stanchion_relay_lag_seconds)",
                    "s",
                    what="Age of the oldest committed event that is not yet a delivery.",
                ),
                number(
                    "Due deliveries",
                    "max(stanchion_deliveries_due)",
                    what="Deliveries whose time has come.",
                ),
                number(
                    "Due, of one endpoint",
                    "max(stanchion_deliveries_due_of_one_max)",
                    what="Of the endpoint that has most of them.",
                ),
                number(
                    "Delivered each second",
                    f"sum(rate(stanchion_webhook_delivered_total[{RATE}]))",
                    "ops",
                    what="Receivers have answered 2xx.",
                ),
            ],
            "Deliveries": [
                lines(
                    "Attempts by ending",
                    {"{{ending}}": f"sum by (ending) (rate(stanchion_webhook_attempts_total[{RATE}]))"},
                    "ops",
                    what="How attempts ended.",
                    stacked=True,
                ),
                latencies("Duration of an attempt", "stanchion_webhook_seconds", what="At most 10 seconds."),
                lines(
                    "Relay",
                    {
                        "events": f"sum(rate(stanchion_relay_events_total[{RATE}]))",
                        "deliveries": f"sum(rate(stanchion_relay_deliveries_total[{RATE}]))",
                        "failed batches": f"sum(rate(stanchion_relay_failures_total[{RATE}]))",
                    },
                    "ops",
                    what="Committed events become one delivery for each endpoint that wants them.",
                ),
                lines(
                    "Troubles",
                    {
                        "wake-ups dropped": f"sum(rate(stanchion_relay_wake_ups_dropped_total[{RATE}]))",
                        "endings not written": f"sum(rate(stanchion_webhook_unrecorded_total[{RATE}]))",
                        "failed claims": f"sum(rate(stanchion_webhook_claim_failures_total[{RATE}]))",
                    },
                    "ops",
                    what="Each heals by itself: the sweep finds what no wake-up told of.",
                ),
                lines(
                    "Dispatchers",
                    {
                        "under way": "sum(stanchion_webhook_under_way)",
                        "slow": "sum(stanchion_webhook_slow)",
                        "endpoints behind": "sum(stanchion_webhook_endpoints_behind)",
                    },
                    what="Attempts in the air, and endpoints that wait for room.",
                ),
            ],
        },
    )


def platform() -> Dashboard:
    """The machinery."""
    return page(
        "platform",
        "Stanchion: platform",
        "Processes, ownership, group commit, the REST API and the database.",
        {
            "Now": [
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
            ],
            "Load": [
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
            ],
            "Ownership and commit": [
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
            ],
            "REST": [
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
            ],
            "Books": [
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
            ],
        },
    )
