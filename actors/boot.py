"""The processes of an installation, in the order in which the supervisor waits for them.

A role is named as text (``module:function``), because another process imports and runs it. The text names the
module that defines the role, so that a process imports its own role only.
"""

from __future__ import annotations

from typing import Final

from actors.cluster.peers import COORDINATOR, STANDBY
from actors.peers import NETWORKS
from actors.placement import ProcessSpec
from actors.settings import Settings

NETWORK_FACTORY: Final = "actors.network.roles:NetworkRole"
RELAY_FACTORY: Final = "actors.outbox.role:RelayRole"
PROCESSES = (
    # Of the two coordinators one leads. No node has both, if there are several: the death of a node with
    # shard hosts must leave one that starts the takeover.
    ProcessSpec(COORDINATOR, "actors.cluster.hosts:coordinator", "supervisor_node"),
    ProcessSpec(STANDBY, "actors.cluster.hosts:coordinator", "last_node"),
    ProcessSpec("edge", "actors.network.roles:EdgeRole", "each"),
    ProcessSpec(NETWORKS[0], NETWORK_FACTORY),
    ProcessSpec(NETWORKS[1], NETWORK_FACTORY, "standby"),
)
"""One process of each role; the edge runs once on each node."""


DELIVERY_NICENESS: Final = 5
"""Deliveries get less processor time than decisions: a backlog of deliveries must not slow decisions down."""


API_NICENESS: Final = 5
"""API servers get less processor time than decisions: a tenant with many requests must not slow decisions of
other tenants down."""


def processes(settings: Settings) -> list[ProcessSpec]:
    """All processes of an installation except shard hosts, which the coordinator creates, and API servers,
    which ``ops.cli`` adds."""
    relays = (
        ProcessSpec("relay", RELAY_FACTORY, niceness=DELIVERY_NICENESS),
        ProcessSpec("relay-2", RELAY_FACTORY, "standby", DELIVERY_NICENESS),
    )
    dispatchers = (
        ProcessSpec(
            f"dispatcher-{number}", "actors.webhooks.role:DispatcherRole", "round_robin", DELIVERY_NICENESS
        )
        for number in range(settings.dispatchers)
    )
    return [*PROCESSES, *relays, *dispatchers]
