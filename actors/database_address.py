"""The parts of a database address that can name several servers.

``postgresql://user:password@one:5432,[2001:db8::2]:5432/name?options`` is an address of libpq (PostgreSQL
manual, 34.1.1.2), but no valid URL: ``urllib`` refuses an IPv6 address behind a comma.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

DEFAULT_PORT: Final = 5432
_PARTS: Final = re.compile(r"([^:/?#]+://)([^/?#]*)(.*)", re.DOTALL)
_WRITABLE: Final = "target_session_attrs=read-write"

Server: TypeAlias = tuple[str | None, int | None]
"""Host and port. Both are ``None`` for the server of an address with one: the driver parses it."""


class _Parts(NamedTuple):
    """An address without its servers, and the servers as they are written."""

    scheme: str
    user: str
    """With the password and the ``@``; empty if the address names none."""
    servers: tuple[str, ...]
    rest: str

    def text(self) -> str:
        return f"{self.scheme}{self.user}{','.join(self.servers)}{self.rest}"


def servers_of(dsn: str) -> list[Server]:
    """The servers that ``dsn`` names. Raises ValueError if one of several is no host and port."""
    servers = _parts(dsn).servers
    if len(servers) < 2:
        return [(None, None)]
    parts = [urlsplit(f"//{server}") for server in servers]
    return [(part.hostname, part.port or DEFAULT_PORT) for part in parts]


def address_of(dsn: str, server: Server) -> str:
    """``dsn`` with ``server`` alone."""
    host, port = server
    if host is None:
        return dsn
    return _parts(dsn)._replace(servers=(f"[{host}]:{port}" if ":" in host else f"{host}:{port}",)).text()


def writable(dsn: str) -> str:
    """``dsn``; where it names several servers, restricted to one that accepts writes."""
    parts = _parts(dsn)
    path, mark, query = parts.rest.partition("?")
    if len(parts.servers) < 2 or "target_session_attrs" in query:
        return dsn
    return parts._replace(
        rest=f"{path}?{query}&{_WRITABLE}" if mark and query else f"{path}?{_WRITABLE}"
    ).text()


def role_of(dsn: str) -> str:
    """The role that ``dsn`` names; empty when it names none."""
    return unquote(_parts(dsn).user.rpartition("@")[0].partition(":")[0])


def _parts(dsn: str) -> _Parts:
    match = _PARTS.fullmatch(dsn)
    if match is None:
        return _Parts("", "", (), dsn)
    scheme, authority, rest = match.groups()
    user, at, servers = authority.rpartition("@")
    return _Parts(scheme, user + at, tuple(servers.split(",")), rest)
