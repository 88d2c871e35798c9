"""Deadlines of commands, and time limits of the database's statements."""

from __future__ import annotations

from typing import Final

AUTHORIZATION_DEADLINE_MS: Final = 4_000
"""From the last byte of a request to the answer; networks give up after about five seconds."""
REST_DEADLINE_MS: Final = 8_000
"""The same for a REST command; longer than a takeover of shards."""
HOST_STOP_SECONDS: Final = 10.0
"""Time that a stopping host waits for its last commits; commands that are not durable by then were not
answered."""
RELEASE_SECONDS: Final = 5.0
"""Time that a host waits for its last commits before it releases shards; afterwards it keeps them."""
MOVE_SECONDS: Final = 10.0
"""Time limit for a host to take or release shards; afterwards another host takes them."""
COMMIT_TIMEOUT_MS: Final = 2_500
"""A commit without an answer by then has an unknown outcome: its connection is cut and new epochs are
taken."""
LOCK_WAIT_PERCENT: Final = 80
"""Share of a caller's time that its statement may wait for one lock; the rest is for the refusal to reach the
caller."""
CLIENT_CHECK_MS: Final = 500
"""Interval at which a backend that runs a statement checks that its client is still connected."""
IDLE_IN_TRANSACTION_MS: Final = 5_000
"""Time that a transaction may wait for its client's next statement before the server ends the session."""
PRIMARY_WATCH_SECONDS: Final = 5.0
"""Interval at which a process looks for a newer primary, if its database address names several servers."""
PRIMARY_WATCH_SECONDS_OF_ONE: Final = 30.0
"""The same if the address names one server, behind which a failover can exchange the primary."""
PRIMARY_PROBE_SECONDS: Final = 2.0
"""Time limit of such a look."""
