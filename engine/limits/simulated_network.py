"""The simulated network."""

from __future__ import annotations

from typing import Final

NETWORK_TIMEOUT_MS: Final = 5_000
"""Time that an acquirer waits for an answer before it counts as lost."""
WITHHELD_ANSWER_MS: Final = NETWORK_TIMEOUT_MS + 1_000
"""From the arrival of a test message that asks for a late answer to that answer: after its network has given
up."""
NETWORK_LATE_SECONDS: Final = 60
"""Time that the simulated network still records late answers."""
FORWARD_ATTEMPTS: Final = 30
"""Attempts of the simulated network to deliver a message that must arrive: reversals, advices and
presentments."""
FORWARD_SECONDS_MIN: Final = 0.25
FORWARD_SECONDS_MAX: Final = 30.0
"""Pauses between these attempts, doubling from the first to the second."""
FORWARD_RESUME_HOURS: Final = 24
"""Age up to which a restarted simulated network repeats reversals and presentments without an answer."""
OUTCOME_RECOVERY_HOURS: Final = 24
"""Age up to which the simulated network looks up the outcome of simulations that failed on the wire."""
OUTCOME_RECOVERY_AFTER_SECONDS: Final = 15
"""From the failure of a simulation to the first look-up: an edge that answered too late has reversed its
approval by then."""
OUTCOME_RECOVERY_POLL_SECONDS: Final = 3.0
"""Interval between look-ups."""
OUTCOME_RECOVERY_BATCH_MAX: Final = 256
"""Outcomes in one look-up."""
CLEARING_BATCH_MAX: Final = 128
"""Sales that are cleared automatically at the same time; the next ones wait for their answers."""
CLEARING_POLL_SECONDS: Final = 0.5
"""Interval between searches for sales that are due for clearing."""
CLEARING_LEASE_SECONDS: Final = 60
"""Lease of one network on due sales; afterwards they are due again."""
ECHO_SECONDS: Final = 30
"""Silence after which a session sends an echo test."""
RECONNECT_SECONDS_MIN: Final = 0.05
RECONNECT_SECONDS_MAX: Final = 2.0
"""Pauses between attempts of a session to connect, doubling from the first to the second."""
SIMULATION_BATCH_MAX: Final = 512
"""Simulation rows in one statement."""
STAN_BLOCK: Final = 1_000
"""STANs reserved from the database at once; unused ones are skipped after a restart."""
