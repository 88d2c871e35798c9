"""Shards, processes and their logs."""

from __future__ import annotations

from typing import Final

# Ownership
SHARD_COUNT: Final = 256
"""Number of shards. The last byte of every id is its shard: the unit of ownership and of movement."""

# Liveness of processes
HOST_PING_SECONDS: Final = 0.25
"""Interval between pings of a shard host."""
HOST_SILENCE_SECONDS: Final = 1.0
"""A shard host that leaves a ping unanswered for this long counts as dead. A false alarm costs a takeover,
never money."""
HOST_CHECK_SECONDS: Final = 0.05
"""Interval between checks of the kernel's state of a shard host on the same machine."""
ROLE_PING_SECONDS: Final = 0.5
"""Interval between pings of every other process."""
ROLE_SILENCE_SECONDS: Final = 2.0
"""The same as ``HOST_SILENCE_SECONDS`` for every other process. No process takes over its work, so a false
alarm costs its clients a restart."""
ROLE_CHECK_SECONDS: Final = 0.1
"""The same as ``HOST_CHECK_SECONDS`` for every other process."""
STOPPED_CONFIRM_SECONDS: Final = 0.01
"""A process that a check finds stopped counts as lost if it still is after this time: a debugger may stop it
for a moment."""
STOPPED_CHECKS: Final = 2
"""Consecutive checks that must find one of Ray's own processes stopped or gone before it counts as lost."""
WATCHER_LATE_SECONDS: Final = 0.25
"""A watcher that notices a silence this much too late had no processor time itself, and pings again."""
ROLE_REPLACED_SECONDS: Final = 5.0
"""Time from the freeze of a process to its successor; the rest after detection is for the start of a
Python process."""
ROLE_PATIENCE_SECONDS: Final = 60.0
"""A process that is killed for silence again within this time is allowed twice the silence, so that a machine
with too little processor time does not spend it on restarts."""
ROLE_PATIENCE_DOUBLINGS_MAX: Final = 3
"""Number of times that the allowed silence is doubled."""
LEADER_CHECK_SECONDS: Final = 1.0
"""Interval at which the coordinator that leads renews its lock, and the other one looks which hosts there
are. The same for the other roles of which one process works and one waits."""
LEADER_LEASE_SECONDS: Final = 3.0
"""PostgreSQL gives the lock of a leader to the other process after this time without a statement of the
leader, for example when its machine has vanished. A process that has died loses it at once."""
ACTIVE_CALL_SECONDS: Final = 10.0
"""Time limit of a call to a process that another one can replace: the machine of the first can have vanished
without closing its connections."""
TABLE_WAIT_SECONDS: Final = 10.0
"""Time that a coordinator keeps a request for a newer routing table."""
TABLE_SECONDS: Final = 12.0
"""Time that a router waits for a coordinator's routing table before it asks again."""
RAY_CHECK_SECONDS: Final = 0.2
"""Interval between checks of the servers of a local Ray: a multiple of ``ROLE_CHECK_SECONDS``, so that the
supervisor makes both checks at one wake-up."""
FORK_SECONDS: Final = 2.0
"""Time that a process in the making waits for the fork server; afterwards it imports its code itself."""
FORK_SERVER_WATCH_SECONDS: Final = 5.0
"""Interval between checks that the fork server runs."""
FORK_SERVER_STOP_SECONDS: Final = 1.0
"""Time that the fork server has to end before it is killed."""
READY_SECONDS: Final = 1.0
"""Time limit of each part of a readiness check; all parts are checked at once."""
ROLE_START_SECONDS: Final = 60.0
"""Time from the start of a process until it must serve; afterwards it is killed and started again."""
ROLE_STOP_SECONDS: Final = 15.0
"""Time that a process has to finish its work before it is killed."""
RAY_ANSWER_SECONDS: Final = 10.0
"""Time limit of Ray's answer to a look-up of a name or of its nodes."""
RAY_REPEAT_SECONDS: Final = 60.0
"""Time after which a question to Ray that is still open is asked again."""
RAY_IDLE_SECONDS: Final = 2.0
"""Time that open calls have to end before the supervisor shuts Ray down."""
RAY_LEAVE_SECONDS: Final = 20.0
"""Time that Ray has to end its servers and processes when the supervisor ends."""
RAY_LOST_SECONDS: Final = 60.0
"""Time that a lost Ray has to end before it is started again; the supervisor ends when it does not."""
PROGRAMME_PUBLISH_SECONDS: Final = 10.0
"""Time limit for publishing a new version of a programme to all hosts."""
ORPHAN_STOP_SECONDS: Final = 30.0
"""Time that the orphaned processes of a killed supervisor have to end."""
DRAIN_SECONDS: Final = 300.0
"""Time that a node has to hand over all its shards."""

# Logs
LOG_REPEATS_MAX: Final = 5
"""Equal lines that are written within ``LOG_REPEATS_SECONDS``; further ones are counted."""
LOG_REPEATS_SECONDS: Final = 10.0
LOG_KINDS_MAX: Final = 1_000
"""Kinds of lines that are distinguished."""
LOG_FRAMES_MAX: Final = 8
"""Innermost frames of a traceback that are logged."""
