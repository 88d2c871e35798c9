"""The readiness checks of one installation."""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.cluster.listen_addresses import listen_addresses
from actors.cluster.peers import RayPeers
from actors.cluster.process_set import ProcessSet
from actors.cluster.readiness import Check, accepts, all_owned, answers_http, answers_sql, listens
from actors.network.links.status import METHOD
from actors.settings import Settings
from engine.limits import READY_SECONDS

EDGE: Final = "edge"
API_PREFIX: Final = "api-"
"""Names of the processes whose ports are checked too."""


def installation_checks(
    settings: Settings, peers: RayPeers, processes: ProcessSet, ray_answers: Check
) -> dict[str, Check]:
    """The checks by part. Ports are checked on this node."""
    names = [process.placed.spec.name for process in processes if not processes.is_elsewhere(process)]
    checks: dict[str, Check] = {
        placed_name: partial(peers.ping, name) for placed_name, name in processes.current_names().items()
    }
    checks["shards"] = partial(all_owned, partial(peers.table, 0), peers.ping)
    if EDGE in names:
        checks["iso8583"] = _edge_check(settings, peers, processes.current_names()[EDGE])
    if any(name.startswith(API_PREFIX) for name in names):
        checks["api"] = partial(answers_http, f"{listen_addresses(settings).base_url}/healthz")
    checks["postgresql"] = partial(answers_sql, settings.database_dsn, READY_SECONDS)
    checks["ray"] = ray_answers
    return checks


def _edge_check(settings: Settings, peers: RayPeers, edge: str) -> Check:
    """Without a list of links, the port must accept connections. Ports of links may refuse this machine, so
    their edge is asked."""
    if settings.links is None:
        return partial(accepts, settings.iso8583_host, settings.iso8583_port)
    return partial(listens, partial(peers.call, edge, METHOD, b""))
