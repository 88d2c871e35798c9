"""Group commit, router, and the memory and the clock of shard hosts."""

from __future__ import annotations

from typing import Final

# Group commit
COMMIT_BATCH_MAX: Final = 256
"""Commands in one transaction. With larger batches, latency grows faster than throughput."""
BACKLOG_WAIT: Final = 4_096
"""Undurable commands in one host from which new commands wait."""
BACKLOG_RESUME: Final = BACKLOG_WAIT // 2
"""Hysteresis: waiting commands resume at half the limit."""
BACKLOG_REFUSE: Final = 16_384
"""Undurable and waiting commands in one host above which it refuses: an answer would come too late."""

# Router
ROUTER_BATCH_MAX: Final = 256
"""Commands in one call: the size of one commit. On an overloaded machine, open commands must still be
answered in time."""
ROUTER_BATCHES_IN_FLIGHT: Final = 2
"""Open calls to one host: one batch is decided while the other is made durable."""
ROUTER_SHARE_MIN: Final = 32
"""Commands of a queue for each call that may be opened, from which the calls divide the queue."""
ROUTER_BACKLOG_MAX: Final = 20_000
"""Commands waiting in one router above which it refuses."""
ROUTER_WAIT_SECONDS_MAX: Final = 2.0
"""Expected wait in a host's queue above which new authorizations for that host are refused: longer than a
takeover takes, and short enough to be answered in time."""

# Host memory
ACTIVE_CARDS_MAX: Final = 50_000
"""Active cards in one host before the least recently used ones are passivated."""
KNOWN_REFERENCES_MAX: Final = 48
"""References to authorizations cached with an active card (three for each); older ones are read back when a
message names them."""
NETWORK_GROUP_MAX: Final = 64
"""Authorizations of one card that are read back under one network id; networks give each sale an id of its
own."""
RECENT_ANSWERS_MAX: Final = 120_000
"""Answers cached in one host for repeated messages: half a minute at 4,000 a second, in about 50 MB. Older
repeats are found through the journal."""
ANSWERS_EVICTED: Final = 4_096
"""Cached answers evicted at a time: few enough not to delay decisions, enough that each costs little."""
REPEATS_RECORDED_MAX: Final = 8
"""Repeats of one message recorded as having received its approval; with more, no edge can reverse it as
late."""
ACTIVATION_ANSWERS: Final = 8
"""Answers read back with a card when it is activated."""
ACTIVATION_HOLDS_STEP: Final = 1_000
"""Open holds loaded into memory without a pause (about a millisecond of work) when an account is
activated."""
CONTROLS_SHARED_MAX: Final = 1_024
"""Size of the interning cache for control sets."""
CONFIGURATIONS_CACHED_MAX: Final = 4_096
"""Configurations of decisions whose JSON a process keeps together with its digest."""
CONFIGURATIONS_KNOWN_MAX: Final = 65_536
"""Configurations of decisions that a host knows to be durable. Others are written again without effect."""

# Programmes in shard hosts
PROGRAMME_REFRESH_SECONDS: Final = 1.0
"""Interval at which a host reads changed programmes again, in case an announcement was lost."""

# Time
CLOCK_SECONDS: Final = 10.0
"""Interval at which a host reads the database's clock; clocks of machines drift by less than a millisecond
meanwhile."""
CLOCK_REFUSED_SECONDS: Final = 1.0
"""The same while the last reading is refused."""
CLOCK_START_SECONDS_MAX: Final = 300.0
"""Largest accepted difference between the database's clock and the clock of a starting host's machine; a
wrong time zone or date differs by more."""
CLOCK_STEP_SECONDS_MAX: Final = 30.0
"""Largest accepted step of the database's clock while a host runs: more than the clock of a promoted standby
differs, and too little to lapse holds or to begin a day long before its time."""
CLOCK_DRIFT_MAX: Final = 0.001
"""Share of the elapsed time by which further steps are allowed; quartz clocks drift by a tenth of it."""

# Expiry of holds
HOLD_SWEEP_SECONDS: Final = 1.0
"""Interval at which a host closes holds past their expiry. They have already stopped counting."""
HOLD_SWEEP_BUSY_SECONDS: Final = 0.05
"""The same while one step cannot close them all."""
HOLD_SWEEP_CARDS_MAX: Final = 200
"""Cards in one step: a thousand holds that expire together must not delay decisions."""

# Calls to decision endpoints
CONSULTATIONS_MAX: Final = 8_192
"""Open calls of one host to decision endpoints above which it refuses delegated authorizations."""
COLLECT_SECONDS: Final = 10.0
"""Time that a host holds a router's request for deferred replies open before it returns none."""
MAILBOXES_MAX: Final = 256
"""Routers for which a host stores deferred replies, however long ago they collected any."""
MAILBOX_IDLE_SECONDS: Final = 60.0
"""With more routers, those that have not collected for this long are forgotten: they have ended."""
