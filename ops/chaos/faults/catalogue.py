"""All faults, in the order of a round."""

from __future__ import annotations

from typing import Final

from ops.chaos.faults.database_states import DATABASE_FAULTS
from ops.chaos.faults.idempotency import IDEMPOTENCY_FAULTS
from ops.chaos.faults.machine import MACHINE_FAULTS
from ops.chaos.faults.memory import MEMORY_FAULTS
from ops.chaos.faults.overload import OVERLOAD_FAULTS
from ops.chaos.faults.processes import PROCESS_FAULTS
from ops.chaos.faults.servers import SERVER_FAULTS
from ops.chaos.faults.single_messages import MESSAGE_FAULTS
from ops.chaos.faults.slow_clients import SLOW_CLIENT_FAULTS
from ops.chaos.faults.stand_in import STAND_IN_FAULTS
from ops.chaos.faults.transfers import TRANSFER_FAULTS

ALL_FAULTS: Final = (
    *PROCESS_FAULTS,
    *SERVER_FAULTS,
    *IDEMPOTENCY_FAULTS,
    *TRANSFER_FAULTS,
    *STAND_IN_FAULTS,
    *MACHINE_FAULTS,
    *DATABASE_FAULTS,
    *MEMORY_FAULTS,
    *MESSAGE_FAULTS,
    *SLOW_CLIENT_FAULTS,
    *OVERLOAD_FAULTS,
)
