"""The addresses on which an installation listens."""

from __future__ import annotations

from dataclasses import dataclass

from actors.settings import Settings


@dataclass(frozen=True)
class ListenAddresses:
    """The addresses of this node, for ``run.json`` and the terminal."""

    base_url: str
    vision_url: str
    iso8583_host: str
    iso8583_port: int
    metrics_url: str


def listen_addresses(settings: Settings) -> ListenAddresses:
    """The addresses that ``settings`` define."""
    return ListenAddresses(
        base_url=f"{settings.web_scheme}://{settings.api_host}:{settings.api_port}",
        vision_url=f"http://{settings.api_host}:{settings.vision_port}",
        iso8583_host=settings.iso8583_host,
        iso8583_port=settings.iso8583_port,
        metrics_url=f"http://{settings.metrics_host}:{settings.metrics_port}/metrics",
    )
