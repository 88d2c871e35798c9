"""The wiring: which processes an installation consists of, in the order in which they are told of.

Each role is named as text, because the process that runs it is another one than the process that reads this;
and it is named where it is defined, so that a process loads its own role and no other.
"""

from __future__ import annotations

from typing import Final

from actors.cluster.peers import COORDINATOR
from actors.peers import NETWORK
from actors.placement import ProcessSpec
from actors.settings import Settings

PROCESSES = (
    # Where the supervisor is, the cluster's head usually is too, whose death ends everything; no other node's
    # death may take along the one process that has shards taken over.
    ProcessSpec(COORDINATOR, "actors.cluster.hosts:coordinator", "beside"),
    ProcessSpec("edge", "actors.network.roles:EdgeRole", "each"),
    ProcessSpec(NETWORK, "actors.network.roles:NetworkRole"),
)
"""The one process of each of these roles; of edges, the one on each node."""


DELIVERY_NICENESS: Final = 5
"""A backlog of deliveries takes what processor time is left over: decisions come first."""


def processes(settings: Settings) -> list[ProcessSpec]:
    """All processes of an installation but two kinds: shard hosts are the coordinator's to create, and API
    servers are added by whoever starts the installation."""
    relay = ProcessSpec("relay", "actors.outbox.role:RelayRole", niceness=DELIVERY_NICENESS)
    dispatchers = (
        ProcessSpec(
            f"dispatcher-{number}", "actors.webhooks.role:DispatcherRole", "around", DELIVERY_NICENESS
        )
        for number in range(settings.dispatchers)
    )
    return [*PROCESSES, relay, *dispatchers]
