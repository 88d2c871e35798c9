"""What a started installation tells: ``run.json`` for programs, and the greeting for people."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from actors.settings import Settings
from engine.limits import SIGN_IN_LINK_MINUTES
from ops.database.clients import ClientCredentials
from ops.supervision.installation import RUN_FILE


class Addresses(Protocol):
    """The addresses on which a started installation listens (``actors.cluster.listen_addresses``)."""

    @property
    def base_url(self) -> str: ...
    @property
    def vision_url(self) -> str: ...
    @property
    def iso8583_host(self) -> str: ...
    @property
    def iso8583_port(self) -> int: ...
    @property
    def metrics_url(self) -> str: ...


def run_record(settings: Settings, addresses: Addresses, clients: list[ClientCredentials]) -> dict[str, Any]:
    """The content of ``run.json``."""
    return {
        "base_url": addresses.base_url,
        "vision_url": addresses.vision_url,
        "iso8583": {"host": addresses.iso8583_host, "port": addresses.iso8583_port},
        "metrics_url": addresses.metrics_url,
        "tenants": [asdict(credentials) for credentials in clients],
        "egress_ca_file": str(settings.egress_ca_file) if settings.egress_ca_file else None,
    }


def greeting(addresses: Addresses, clients: list[ClientCredentials], var_dir: Path, sign_in: str) -> str:
    """The addresses, the link into the console, and the commands of a first API request to paste."""
    admin = next(client for client in clients if (client.mode, client.role) == ("test", "admin"))
    base_url = addresses.base_url
    return f"""
Stanchion is up.
  API          {base_url}   (description: {base_url}/docs/openapi.json)
  console      {base_url}/console
  vision host  {addresses.vision_url}
  ISO 8583     {_wire(addresses)}
  metrics      {addresses.metrics_url}
  clients      {var_dir / RUN_FILE}

Open the console; this link works once, for {SIGN_IN_LINK_MINUTES} minutes (another: stanchion sign-in):
  {sign_in}

Try it (test mode, tenant "{admin.name}"):
  TOKEN=$(curl -s {base_url}/v1/oauth/token -d grant_type=client_credentials \\
    -u {admin.client_id}:{admin.client_secret} \\
    | python3 -c 'import json, sys; print(json.load(sys.stdin)["access_token"])')
  curl -s {base_url}/v1/programs -H "Authorization: Bearer $TOKEN"

Ctrl-C stops everything; the data stay in {var_dir}.
"""


def _wire(addresses: Addresses) -> str:
    """The address for messages, or the command that lists the links where none listens."""
    if not addresses.iso8583_port:
        return "no link listens: stanchion links"
    return f"{addresses.iso8583_host}:{addresses.iso8583_port}"
