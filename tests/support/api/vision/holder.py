"""Requests of a cardholder who opens the page of a reveal session."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx2


async def show(http: httpx2.AsyncClient, url: str) -> httpx2.Response:
    """Send the one call of the page at ``url``, with the token of its fragment."""
    parts = urlsplit(url)
    return await http.post(parts.path, json={"token": parts.fragment})
