"""The wiring: which processes an installation consists of, in the order in which they start.

Each factory is named as text, because the process that runs it is another one than the process that reads
this.
"""

from __future__ import annotations

from functools import partial

from actors.cluster.coordinator import Coordinator
from actors.cluster.hosts import RayHosts
from actors.cluster.peers import COORDINATOR, RayPeers
from actors.cluster.supervisor import ProcessSpec
from actors.journal.owners import read_owners
from actors.network.roles import EdgeRole, NetworkRole
from actors.peers import NETWORK
from actors.roles import Context, Role
from actors.shards.role import HostRole

PROCESSES = (
    ProcessSpec(COORDINATOR, "actors.boot:coordinator"),
    ProcessSpec("edge", "actors.boot:edge"),
    ProcessSpec(NETWORK, "actors.boot:network"),
)
"""Shard hosts are the coordinator's to create; the API server is added by whoever starts the installation."""


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
