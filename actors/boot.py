"""The wiring: which processes an installation consists of, in the order in which they start.

Each factory is named as text, because the process that runs it is another one than the process that reads
this.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Final

from actors.cluster.coordinator import Coordinator
from actors.cluster.hosts import RayHosts
from actors.cluster.peers import COORDINATOR, RayPeers
from actors.journal.owners import read_owners
from actors.network.roles import EdgeRole, NetworkRole
from actors.outbox.role import RelayRole
from actors.peers import NETWORK
from actors.placement import ProcessSpec
from actors.roles import Context, Role
from actors.settings import Settings
from actors.shards.role import HostRole
from actors.webhooks.role import DispatcherRole

PROCESSES = (
    # Where the supervisor is, the cluster's head usually is too, whose death ends everything; no other node's
    # death may take along the one process that has shards taken over.
    ProcessSpec(COORDINATOR, "actors.boot:coordinator", "beside"),
    ProcessSpec("edge", "actors.boot:edge", "each"),
    ProcessSpec(NETWORK, "actors.boot:network"),
    ProcessSpec("relay", "actors.boot:relay"),
)
"""The one process of each of these roles; of edges, the one on each node."""


DELIVERY_NICENESS: Final = 5
"""A backlog of deliveries takes what processor time is left over: decisions come first."""


def processes(settings: Settings) -> list[ProcessSpec]:
    """All processes of an installation but two kinds: shard hosts are the coordinator's to create, and API
    servers are added by whoever starts the installation."""
    dispatchers = (
        ProcessSpec(f"dispatcher-{number}", "actors.boot:dispatcher", "around")
        for number in range(settings.dispatchers)
    )
    return [*PROCESSES, *dispatchers]


def coordinator(context: Context) -> Role:
    """Assigns shards to hosts."""
    settings = context.settings
    hosts = RayHosts(settings, RayPeers(settings))
    return Coordinator(hosts, partial(read_owners, settings.database_dsn), settings.hosts)


def host(context: Context) -> Role:
    """Owns shards."""
    return HostRole(context)


def edge(context: Context) -> Role:
    """Speaks ISO 8583 with networks."""
    return EdgeRole(context)


def network(context: Context) -> Role:
    """Plays the acquirer and the scheme in test mode."""
    return NetworkRole(context)


def relay(context: Context) -> Role:
    """Turns committed events into deliveries."""
    os.nice(DELIVERY_NICENESS)
    return RelayRole(context)


def dispatcher(context: Context) -> Role:
    """Sends deliveries to their endpoints."""
    os.nice(DELIVERY_NICENESS)
    return DispatcherRole(context)
