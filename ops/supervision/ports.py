"""The ports of an installation: chosen and checked before anything is started."""

from __future__ import annotations

import socket

from actors.network.links.file import configured_links
from actors.settings import PREFIX, Settings
from ops.embedded.ports import free_ports
from ops.supervision.errors import UpError
from ops.supervision.terminal import tell


def with_free_ports(settings: Settings) -> Settings:
    """Replace each port 0 by a free port. Raises UpError if another port is taken."""
    ports = {
        "api_port": settings.api_host,
        "vision_port": settings.api_host,
        "iso8583_port": settings.iso8583_host,
        "metrics_port": settings.metrics_host,
    }
    chosen = dict(zip(ports, free_ports(len(ports)), strict=True))
    for name, host in ports.items():
        port = getattr(settings, name)
        # In a cluster, servers of an earlier supervisor may still use these ports on the nodes.
        ours = settings.ray_address is None or name == "metrics_port"
        if ours and port and not _can_listen(host, port):
            raise UpError(f"port {port} is taken; set {PREFIX}{name.upper()}, or use --ports auto")
    return settings.replace(**{name: port for name, port in chosen.items() if getattr(settings, name) == 0})


def check_links(settings: Settings) -> None:
    """Warn of links without encryption. Raises LinksError for errors in ``links.toml``, and UpError if a port
    is taken."""
    for entry in configured_links(settings):
        if entry.in_plain_text:
            tell(f"WARNING: link {entry.name} uses {entry.host} without encryption.")
        ours = settings.links is not None and settings.ray_address is None and entry.listens
        if ours and not _can_listen(entry.host, entry.port):
            raise UpError(f"port {entry.port} of link {entry.name} is taken")


def _can_listen(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
