"""Reads ``links.toml``, the list of links, and checks each entry before any process starts.

``ops/docs/LINKS.md`` describes the fields. Every error names file, line and field.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NoReturn, TypeVar

import msgspec

from actors.network.links.entry import (
    DEFAULT_ECHO_SECONDS,
    Direction,
    LinkEntry,
    MacEntry,
    Mode,
    SignOn,
    TlsEntry,
    TlsVersion,
    default_link,
)
from actors.network.links.errors import LinksError
from actors.network.links.mac_keys import read_keys
from actors.network.links.tls import TlsFilesError, link_tls
from actors.network.links.toml_lines import line_of
from actors.network.profile_files import find_profile
from actors.settings import Settings
from engine.iso8583.mac import MacKeyError, check_key
from engine.iso8583.message_class import MessageClass
from engine.iso8583.profile import Profile
from engine.iso8583.profiles import ISO87_ASCII, ProfileError, UnknownProfileError
from engine.limits import (
    EDGE_CONNECTIONS_MAX,
    EDGE_IDLE_SECONDS,
    EDGE_IN_FLIGHT_MAX,
    EDGE_SILENT_SECONDS,
    LINK_CONNECTIONS_DEFAULT,
    LINK_CONNECTIONS_OUT_DEFAULT,
    LINK_CONNECTIONS_OUT_MAX,
    LINKS_MAX,
)

T = TypeVar("T")

ARRAY: Final = "links"
MAY_POST_DEFAULT: Final[tuple[MessageClass, ...]] = ("authorization", "advice", "presentment", "reversal")
"""Refunds and force posts move money without an authorization, so an entry must list them."""

_HEXADECIMAL: Final = re.compile(r"(?:[0-9A-Fa-f]{2}){8,}", re.ASCII)
_PATH: Final = re.compile(r"(?P<problem>.*?)(?: - at `\$(?P<path>[^`]*)`)?")
_UNKNOWN_FIELD: Final = re.compile(r"Object contains unknown field `(?P<field>[^`]*)`")
_MISSING_FIELD: Final = re.compile(r"Object missing required field `(?P<field>[^`]*)`")

_Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9-]{0,31}\Z")]
_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Institution = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,11}\Z")]
_Iin = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{4,11}\Z")]
_Port = Annotated[int, msgspec.Meta(ge=1, le=65_535)]
_Seconds = Annotated[int, msgspec.Meta(ge=1, le=86_400)]


class _Tls(msgspec.Struct, forbid_unknown_fields=True):
    cert: _Text
    key: _Text
    ca: _Text
    client_names: tuple[_Text, ...] = ()
    server_name: _Text | None = None
    min_version: TlsVersion = "1.2"


class _Link(msgspec.Struct, forbid_unknown_fields=True):
    name: _Name
    direction: Direction
    mode: Mode
    host: _Text
    port: _Port
    profile: _Text = ISO87_ASCII.name
    connections: Annotated[int, msgspec.Meta(ge=1, le=EDGE_CONNECTIONS_MAX)] | None = None
    tls: _Tls | None = None
    plaintext: Literal["accepted"] | None = None
    allow: tuple[str, ...] = ()
    institutions: tuple[_Institution, ...] = ()
    iins: tuple[_Iin, ...] = ()
    sign_on: SignOn = "required"
    echo_seconds: Annotated[int, msgspec.Meta(ge=0, le=3_600)] | None = None
    idle_seconds: _Seconds = EDGE_IDLE_SECONDS
    mac_key: str | None = None
    mac_algorithm: str | None = None
    may_post: tuple[MessageClass, ...] = MAY_POST_DEFAULT
    in_flight: Annotated[int, msgspec.Meta(ge=1, le=EDGE_IN_FLIGHT_MAX)] | None = None
    bytes_per_second: Annotated[int, msgspec.Meta(ge=1_024)] | None = None


class _File(msgspec.Struct, forbid_unknown_fields=True):
    links: Annotated[tuple[_Link, ...], msgspec.Meta(min_length=1, max_length=LINKS_MAX)]


def configured_links(settings: Settings) -> tuple[LinkEntry, ...]:
    """The links of the installation: those of ``STANCHION_LINKS``, or the default listener. Raises
    ``LinksError``."""
    if settings.links is None:
        return (default_link(settings.iso8583_host, settings.iso8583_port),)
    return read_links(settings.links)


def read_links(path: Path) -> tuple[LinkEntry, ...]:
    """The entries of the file, in its order. Raises ``LinksError``."""
    try:
        text = path.read_text("utf-8")
        raw = tomllib.loads(text)
    except OSError as failure:
        raise LinksError(f"{path}: cannot be read ({failure.strerror})") from None
    except UnicodeDecodeError:
        raise LinksError(f"{path}: is not UTF-8") from None
    except tomllib.TOMLDecodeError as failure:
        raise LinksError(f"{path}: {failure}") from None
    return _Reader(path, text).entries(raw)


class _Reader:
    """Checks the values of one file. Errors name the line of the field."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._text = text

    def entries(self, raw: dict[str, Any]) -> tuple[LinkEntry, ...]:
        try:
            links = msgspec.convert(raw, _File).links
        except msgspec.ValidationError as failure:
            self._fail_conversion(str(failure))
        entries = tuple(self._entry(index, link) for index, link in enumerate(links))
        self._check_together(entries)
        return entries

    def _entry(self, index: int, link: _Link) -> LinkEntry:
        listens = link.direction == "listen"
        entry = LinkEntry(
            name=link.name,
            direction=link.direction,
            mode=link.mode,
            host=link.host,
            port=link.port,
            profile=self._profile(index, link.profile),
            connections=self._connections(index, link),
            tls=None if link.tls is None else self._tls(link.tls),
            plaintext_accepted=link.plaintext is not None,
            allow=tuple(self._network(index, each) for each in link.allow),
            institutions=frozenset(each.lstrip("0") or "0" for each in link.institutions),
            iins=link.iins,
            sign_on=link.sign_on,
            echo_seconds=self._echo_seconds(link),
            per_address=self._connections(index, link),
            idle_seconds=link.idle_seconds,
            silent_seconds=min(link.idle_seconds, EDGE_SILENT_SECONDS) if listens else link.idle_seconds,
            mac=self._mac(index, link),
            may_post=frozenset(link.may_post),
            in_flight=link.in_flight,
            bytes_per_second=link.bytes_per_second,
        )
        if not listens and link.allow:
            self._fail(index, "allow", "is for links that listen")
        if not link.may_post:
            self._fail(index, "may_post", "is empty, so the link could send nothing")
        if entry.sign_on != "none" and not _has_network_management(entry.profile):
            self._fail(index, "sign_on", f"must be none: the profile {entry.profile.name} has no 0800")
        if entry.mac is not None and not entry.profile.mac_bytes:
            self._fail(index, "mac_key", f"the profile {entry.profile.name} has no MACs")
        self._check_transport(index, entry)
        return entry

    def _connections(self, index: int, link: _Link) -> int:
        if link.direction == "listen":
            return link.connections or LINK_CONNECTIONS_DEFAULT
        wanted = link.connections or LINK_CONNECTIONS_OUT_DEFAULT
        if wanted > LINK_CONNECTIONS_OUT_MAX:
            self._fail(
                index, "connections", f"is above {LINK_CONNECTIONS_OUT_MAX}, the most that connect out"
            )
        return wanted

    def _echo_seconds(self, link: _Link) -> int:
        if link.echo_seconds is not None:
            return link.echo_seconds
        return 0 if link.direction == "listen" else DEFAULT_ECHO_SECONDS

    def _check_transport(self, index: int, entry: LinkEntry) -> None:
        if entry.tls is None:
            if entry.in_plain_text and not entry.plaintext_accepted:
                self._fail(
                    index,
                    "tls",
                    f"is missing and {entry.host} is not loopback: card numbers would leave this machine"
                    ' unencrypted; add [links.tls], or write plaintext = "accepted"',
                )
            return
        if entry.plaintext_accepted:
            self._fail(index, "plaintext", "contradicts tls")
        if not entry.listens and entry.tls.client_names:
            self._fail(index, "tls.client_names", "is for links that listen")
        if entry.listens and entry.tls.server_name is not None:
            self._fail(index, "tls.server_name", "is for links that connect")
        try:
            link_tls(entry).context()
        except TlsFilesError as failure:
            self._fail(index, f"tls.{failure.field}", failure.problem)

    def _tls(self, tls: _Tls) -> TlsEntry:
        return TlsEntry(
            cert=self._file(tls.cert),
            key=self._file(tls.key),
            ca=self._file(tls.ca),
            client_names=tls.client_names,
            server_name=tls.server_name,
            min_version=tls.min_version,
        )

    def _profile(self, index: int, reference: str) -> Profile:
        """A shipped profile by name, or one in a file beside this one."""
        try:
            return find_profile(reference, self._path.parent)
        except (ProfileError, UnknownProfileError) as failure:
            self._fail(index, "profile", str(failure))

    def _mac(self, index: int, link: _Link) -> MacEntry | None:
        if link.mac_key is None:
            if link.mac_algorithm is not None:
                self._fail(index, "mac_algorithm", "stands without mac_key")
            return None
        if link.mac_algorithm is None:
            self._fail(index, "mac_algorithm", "is missing beside mac_key")
        inline = _HEXADECIMAL.fullmatch(link.mac_key) is not None
        entry = MacEntry(
            link.mac_algorithm,
            bytes.fromhex(link.mac_key) if inline else None,
            None if inline else self._file(link.mac_key),
        )
        keys = self._checked(index, "mac_key", MacKeyError, read_keys, entry)
        for key in keys:
            self._checked(index, "mac_key", MacKeyError, lambda each: check_key(entry.algorithm, each), key)
        return entry

    def _network(self, index: int, text: str) -> IPv4Network | IPv6Network:
        try:
            return ip_network(text)
        except ValueError:
            self._fail(index, "allow", "must list networks like 192.0.2.0/24")

    def _check_together(self, entries: tuple[LinkEntry, ...]) -> None:
        names: set[str] = set()
        ports: dict[int, list[str]] = {}
        total = 0
        for index, entry in enumerate(entries):
            if entry.name in names:
                self._fail(index, "name", "occurs twice")
            names.add(entry.name)
            if not entry.listens:
                continue
            total += entry.connections
            if total > EDGE_CONNECTIONS_MAX:
                self._fail(
                    index, "connections", f"makes more than {EDGE_CONNECTIONS_MAX} for all links together"
                )
            hosts = ports.setdefault(entry.port, [])
            if any(entry.host == host or _ANY & {entry.host, host} for host in hosts):
                self._fail(index, "port", "belongs to an earlier link")
            hosts.append(entry.host)

    def _file(self, text: str) -> Path:
        """A path, relative to the folder of ``links.toml``."""
        return (self._path.parent / Path(text).expanduser()).absolute()

    def _checked(
        self, index: int, field: str, error: type[Exception], check: Callable[[Any], T], value: Any
    ) -> T:
        try:
            return check(value)
        except error as failure:
            self._fail(index, field, str(failure))

    def _fail_conversion(self, message: str) -> NoReturn:
        """Name the entry and the field in an error of msgspec."""
        found = _PATH.fullmatch(message)
        problem, path = (found["problem"], found["path"] or "") if found else (message, "")
        place = re.match(r"\.links\[(\d+)\]\.?(.*)", path)
        index, field = (int(place[1]), re.sub(r"\[\d*\]", "", place[2])) if place else (0, "")
        for pattern, text in ((_UNKNOWN_FIELD, "is no field"), (_MISSING_FIELD, "is missing")):
            named = pattern.fullmatch(problem)
            if named is not None:
                field = f"{field}.{named['field']}".lstrip(".")
                problem = text
        if place is None:
            raise LinksError(f"{self._path}: {field or 'links'}: {problem}") from None
        self._fail(index, field, problem)

    def _fail(self, index: int, field: str, problem: str) -> NoReturn:
        line = line_of(self._text, ARRAY, index, field)
        raise LinksError(f"{self._path}, line {line}: {field or ARRAY}: {problem}") from None


def _has_network_management(profile: Profile) -> bool:
    return any(known.function == "network_management" for known in profile.messages.requests.values())


_ANY: Final = frozenset({"0.0.0.0", "::"})


def simulator_address(entries: tuple[LinkEntry, ...], acquirer_id: str) -> tuple[str, int] | None:
    """The address at which the simulated network reaches an edge: the first listener of test mode without TLS
    and MAC that accepts its acquirer. ``None`` if there is none."""
    for entry in entries:
        if not entry.listens or entry.live or entry.tls is not None or entry.mac is not None:
            continue
        if entry.profile is ISO87_ASCII and (not entry.institutions or acquirer_id in entry.institutions):
            return ("127.0.0.1" if entry.host in _ANY else entry.host, entry.port)
    return None
