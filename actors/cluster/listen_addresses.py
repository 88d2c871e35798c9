"""The addresses on which an installation listens."""

from __future__ import annotations

from dataclasses import dataclass

from actors.network.links.file import configured_links, simulator_address
from actors.network.messages import ACQUIRER_ID
from actors.settings import Settings


@dataclass(frozen=True)
class ListenAddresses:
    """The addresses of this node, for ``run.json`` and the terminal."""

    base_url: str
    vision_url: str
    iso8583_host: str
    iso8583_port: int
    """Address of the link that the simulated network uses, else of the first that listens; 0 if none does."""
    metrics_url: str


def listen_addresses(settings: Settings) -> ListenAddresses:
    """The addresses that ``settings`` define. Raises ``LinksError``."""
    iso8583_host, iso8583_port = _wire_address(settings)
    return ListenAddresses(
        base_url=f"{settings.web_scheme}://{settings.api_host}:{settings.api_port}",
        vision_url=f"http://{settings.api_host}:{settings.vision_port}",
        iso8583_host=iso8583_host,
        iso8583_port=iso8583_port,
        metrics_url=f"{settings.metrics_scheme}://{settings.metrics_host}:{settings.metrics_port}/metrics",
    )


def _wire_address(settings: Settings) -> tuple[str, int]:
    if settings.links is None:
        return settings.iso8583_host, settings.iso8583_port
    entries = configured_links(settings)
    listening = next(((each.host, each.port) for each in entries if each.listens), ("", 0))
    return simulator_address(entries, ACQUIRER_ID) or listening
