"""All settings of an installation, read once from ``STANCHION_*`` variables.

No other module reads the environment, so all values are documented and checked here. A process that starts
another passes its settings as bytes (``to_json``), without the master key: the arguments of actors stay in
the memory of the cluster's head. Each process reads the master key from its own environment or from the key
file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, Self, get_type_hints

from msgspec import Meta, Struct

from actors.database_address import writable
from actors.setting_values import (
    Networks,
    Secret,
    absolute,
    checked_headers,
    checked_master_keys,
    converted,
    existing_file,
    issuer_address,
    parse_headers,
    path_prefix,
    web_address,
    with_scheme,
)
from engine.limits import (
    HTTP_CONNECTIONS_MAX,
    HTTP_CONNECTIONS_PER_ADDRESS_MAX,
    TOKEN_FAILURES_PER_MINUTE,
)

PREFIX: Final = "STANCHION_"

# Variables of the test suite, the benchmarks and the chaos runs.
_FOREIGN_PREFIXES: Final = ("STANCHION_TEST_", "STANCHION_BENCH_", "STANCHION_CHAOS")


Port = Annotated[int, Meta(ge=0, le=65535)]

_database_address = with_scheme("postgresql://", "postgres://")
_RULES: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        "database_url": _database_address,
        "migrations_database_url": _database_address,
        "redis_url": with_scheme("redis://", "rediss://"),
        "var_dir": absolute,
        "vision_base_url": web_address,
        "links": existing_file,
        "docs_base_url": web_address,
        "tls_cert_file": existing_file,
        "tls_key_file": existing_file,
        "metrics_tls_cert_file": existing_file,
        "metrics_tls_key_file": existing_file,
        "oidc_issuer": issuer_address,
        "root_path": path_prefix,
        "egress_ca_file": existing_file,
        "master_key": checked_master_keys,
        "otlp_endpoint": web_address,
        "otlp_headers": checked_headers,
    }
)
"""Rules of fields beyond their types. A rule takes and returns a value that is not ``None``; it raises
``ValueError`` with a requirement that does not contain the value."""

_PAIRS: Final = (
    ("tls_key_file", "tls_cert_file", "the certificate and the key are set together"),
    ("metrics_tls_key_file", "metrics_tls_cert_file", "the certificate and the key are set together"),
    ("oidc_client_id", "oidc_issuer", "the issuer and the client id are set together"),
)
"""Fields that are set together. The error names the first one."""


_SECRETS: Final = ("database_url", "redis_url", "otlp_headers", "oidc_client_secret")
"""Masked fields that other processes receive."""
_WITHHELD: Final = ("master_key", "migrations_database_url")
"""Masked fields that they do not receive."""


class SettingsError(Exception):
    """A setting cannot be used. The message is one line that names the variable without its value."""


class Settings(Struct, frozen=True, kw_only=True):
    """One installation. Each field is the variable ``STANCHION_<FIELD>``; unset fields have the default
    shown. ``load``, ``replace`` and ``from_json`` validate; the constructor does not."""

    # --- servers ------------------------------------------------------------------------------------------
    database_url: Secret | None = None
    """PostgreSQL 15 or newer, ``postgresql://user:password@host:port/name``; several servers, of which the
    one that accepts writes is used, as ``host:port,host:port``; unset = embedded, in ``var_dir``."""
    migrations_database_url: Secret | None = None
    """The same database, as the role that owns its tables; used by `stanchion up` and the other operator
    commands, and not passed to processes. Unset = ``database_url``."""
    allow_data_loss: bool = False
    """Whether to start although the loss of PostgreSQL's primary can lose acknowledged decisions: it has
    standbys that are not synchronous."""
    redis_url: Secret | None = None
    """Redis 7 or newer, ``redis://:password@host:port/0``; unset = embedded. It only carries wake-ups: ids,
    never payloads."""
    ray_address: str | None = None
    """An existing Ray cluster, ``host:port`` or ``auto``; unset = a local Ray on this machine's cores."""
    var_dir: Path = Path("var")
    """State of this installation: embedded servers, keys, logs, ``run.json``."""

    # --- addresses; port 0 picks a free one ---
    api_host: str = "127.0.0.1"
    """Address on which the API and the vision host listen."""
    api_port: Port = 8000
    vision_port: Port = 8001
    vision_base_url: str | None = None
    """Public address of the vision host, the base of all addresses of capture pages; unset = ``api_host`` and
    ``vision_port``."""
    iso8583_host: str = "127.0.0.1"
    iso8583_port: Port = 8583
    edge_health_port: Port = 0
    """Port at ``iso8583_host`` on which each edge answers ``GET /readyz``, for the probes of its node: 200
    while its links listen and the API of the node answers; 0 = none."""
    links: Path | None = None
    """List of the links to networks and processors, TOML; unset = one link in test mode that listens at
    ``iso8583_host`` and ``iso8583_port``, which have no effect otherwise."""
    metrics_host: str = "127.0.0.1"
    metrics_port: Port = 9464
    docs_base_url: str | None = None
    """Public address of the documentation host, the base of every problem ``type``; unset = relative to the
    API."""
    trusted_proxies: Networks = ()
    """Comma-separated networks of proxies whose ``X-Forwarded-For``, ``X-Forwarded-Proto`` and
    ``X-Forwarded-Prefix`` are trusted."""
    tls_cert_file: Path | None = None
    """Certificate chain, PEM, with which the API and the vision host serve HTTPS; read again when it changes;
    unset = plain HTTP, for a proxy that terminates TLS."""
    tls_key_file: Path | None = None
    """Its unencrypted private key, PEM."""
    metrics_tls_cert_file: Path | None = None
    """The same for the metrics port; unset = plain HTTP."""
    metrics_tls_key_file: Path | None = None
    """Its unencrypted private key, PEM."""
    connections_max: Annotated[int, Meta(ge=16, le=65_536)] = HTTP_CONNECTIONS_MAX
    """Open connections on each HTTP port of each API server; idle ones give way to new ones."""
    connections_per_address_max: Annotated[int, Meta(ge=1, le=65_536)] = HTTP_CONNECTIONS_PER_ADDRESS_MAX
    """Of these, connections from one address (IPv6: one /64); ``trusted_proxies`` are exempt."""

    # --- processes ----------------------------------------------------------------------------------------
    hosts: Annotated[int, Meta(ge=1, le=256)] = 2
    """Shard hosts on each node: processes that own cards. More hosts than cores add no speed, but a crash
    then affects fewer cards."""
    reserve_hosts: Annotated[int, Meta(ge=0, le=255)] | None = None
    """How many of them own no cards until another one ends, at most all but one; unset = half of them on a
    machine with fewer than four cores, where one host is cheaper than two, else none."""
    api_servers: Annotated[int, Meta(ge=1, le=256)] = 1
    """API server processes on each node."""
    dispatchers: Annotated[int, Meta(ge=1, le=64)] = 1
    """Processes that send webhooks, spread over the nodes."""

    # --- operators ---------------------------------------------------------------------------------------
    operator: Annotated[str, Meta(max_length=100)] | None = None
    """Name of the operator who runs a command, for the audit log; unset = the login name."""

    # --- behaviour ----------------------------------------------------------------------------------------
    enable_gateway: bool = False
    """Whether programmes may be created in gateway mode."""
    auto_clear_seconds: Annotated[int, Meta(ge=0, le=31_536_000)] = 30
    """Seconds after which the simulated network clears an approved sale automatically; 0 = never."""
    rate_live_per_second: Annotated[int, Meta(ge=1)] = 100
    """Requests a second for each tenant in live mode."""
    rate_test_per_second: Annotated[int, Meta(ge=1)] = 1_000
    """Requests a second for each tenant in test mode, without simulations, in each API server."""
    quota_programmes: Annotated[int, Meta(ge=1)] = 1_000
    """Programmes of a tenant in one mode."""
    quota_card_products: Annotated[int, Meta(ge=1)] = 2_000
    """Card products of a tenant in one mode."""
    quota_cardholders: Annotated[int, Meta(ge=1)] = 1_000_000
    """Cardholders of a tenant in one mode."""
    quota_cards: Annotated[int, Meta(ge=1)] = 2_000_000
    """Cards of a tenant in one mode."""
    quota_keys_per_day: Annotated[int, Meta(ge=1)] = 1_000_000
    """Idempotency keys that a tenant stores in 24 hours, in each API server."""
    quota_stored_mb_per_day: Annotated[int, Meta(ge=1)] = 1_024
    """Megabytes of answers that a tenant stores under idempotency keys in 24 hours, in each API server."""
    rate_token_per_minute: Annotated[int, Meta(ge=1)] = TOKEN_FAILURES_PER_MINUTE
    """Failed token requests and sign-ins a minute for each client_id, and tries of a password for each
    sign-in name; ten times as many failures for each source address. The right secret of a client is never
    refused."""
    rate_kyc_writes_per_minute: Annotated[int, Meta(ge=1)] = 60
    """KYC writes a minute for each client."""

    # --- sign-in to the console -------------------------------------------------------------------------
    oidc_issuer: str | None = None
    """OpenID Connect provider through which users may sign in, as its metadata name it; unset = none."""
    oidc_client_id: str | None = None
    """The id of this installation at the provider."""
    oidc_client_secret: Secret | None = None
    """Its secret; unset = a public client."""
    root_path: str = ""
    """Path prefix under which a proxy serves this installation, such as ``/cards``; trusted proxies may send
    it as ``X-Forwarded-Prefix`` instead."""

    # --- outgoing calls -----------------------------------------------------------------------------------
    egress_allow: Networks = ()
    """Comma-separated private networks that webhooks and decision calls may reach, in both modes; receivers
    of `stanchion listen` and `stanchion decide` need no entry."""
    egress_ca_file: Path | None = None
    """An additional certificate authority for outgoing HTTPS, PEM; unset = none, or the authority of
    `stanchion listen` if the API listens on loopback."""

    # --- secrets, logs ------------------------------------------------------------------------------------
    master_key: Secret | None = None
    """``[label:]base64`` of 32 bytes, several separated by commas, current first; unset = created once in
    ``var_dir/keys``."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_decisions: bool = False
    """Whether the log has a line for each decision, at the level ``info``."""
    otlp_endpoint: str | None = None
    """Base address of an OpenTelemetry collector, ``http://host:4318``, that receives traces over OTLP/HTTP;
    unset = no traces. Needs the package's extra ``otel``."""
    otlp_headers: Secret | None = None
    """Headers of the calls to it, ``name=value``, separated by commas."""
    trace_ratio: Annotated[float, Meta(ge=0.0, le=1.0)] = 1.0
    """Share of the requests that are traced, unless the caller's ``traceparent`` decides."""

    @classmethod
    def load(cls, **overrides: Any) -> Self:
        """Settings of this process: ``overrides`` (from the command line) take precedence over the
        environment, and the environment over the defaults.

        Raises ``SettingsError`` with one line that names the first invalid variable.
        """
        given = cls._environment() | overrides
        values = {name: _valid(name, given.get(name, default)) for name, default in cls.defaults().items()}
        if unknown := given.keys() - values.keys():
            raise SettingsError(f"{PREFIX}{min(unknown).upper()}: there is no such setting")
        for name, other, requirement in _PAIRS:
            if (values[name] is None) != (values[other] is None):
                raise SettingsError(f"{PREFIX}{name.upper()}: {requirement}")
        return cls(**values)

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The default of each field, in order, before validation."""
        return dict(zip(cls.__struct_fields__, cls.__struct_defaults__, strict=True))

    @classmethod
    def _environment(cls) -> dict[str, str]:
        """The variables that are set and not empty, by field."""
        variables = {name: os.environ.get(PREFIX + name.upper()) for name in cls.__struct_fields__}
        return {name: value for name, value in variables.items() if value}

    def replace(self, **changes: Any) -> Self:
        """A validated copy with some fields changed. Raises ``SettingsError`` as ``load`` does."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return self.load(**(values | changes))

    def to_json(self) -> bytes:
        """The settings that are not at their defaults, as bytes for another process, except the master key
        and the address for migrations. That process can be of another release, which does not know every
        setting."""
        values = {
            name: _plain(value)
            for name, default in self.defaults().items()
            if name not in (*_WITHHELD, *_SECRETS) and (value := getattr(self, name)) != default
        }
        # None too: an unset address must win over the environment of the other process.
        values |= {"database_url": None, "redis_url": None}
        values |= {name: secret.reveal() for name in _SECRETS if (secret := getattr(self, name))}
        return json.dumps(values).encode()

    @classmethod
    def from_json(cls, raw: bytes) -> Self:
        """The settings from another process's ``to_json``, with the master key from this process's
        environment. Names that this release does not know are left out."""
        fields = {name: default for name, default in cls.defaults().items() if name != "master_key"}
        given = {name: value for name, value in json.loads(raw).items() if name in fields}
        return cls.load(**(fields | given))

    @property
    def database_dsn(self) -> str:
        """The database address as text; the supervisor fills in the embedded server. Of several servers, only
        one that accepts writes is used. Raises ``SettingsError`` if it is not set."""
        return writable(_present(self.database_url, "DATABASE_URL"))

    @property
    def migrations_dsn(self) -> str:
        """The database address of the role that owns the tables. Raises ``SettingsError`` if not set."""
        return writable(_present(self.migrations_database_url or self.database_url, "DATABASE_URL"))

    @property
    def vision_address(self) -> str:
        """The base of all addresses on the vision host, without a trailing slash."""
        return self.vision_base_url or f"{self.web_scheme}://{self.api_host}:{self.vision_port}"

    @property
    def otlp_headers_by_name(self) -> dict[str, str]:
        """The headers of calls to the collector."""
        return {} if self.otlp_headers is None else parse_headers(self.otlp_headers.reveal())

    @property
    def web_scheme(self) -> Literal["http", "https"]:
        """Scheme on which the API and the vision host listen."""
        return "http" if self.tls_cert_file is None else "https"

    @property
    def metrics_scheme(self) -> Literal["http", "https"]:
        """Scheme on which the metrics port listens."""
        return "http" if self.metrics_tls_cert_file is None else "https"

    @property
    def redis_dsn(self) -> str:
        """The Redis address as text; the supervisor fills in the embedded server. Raises ``SettingsError`` if
        it is not set."""
        return _present(self.redis_url, "REDIS_URL")


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Names in ``environ`` with the prefix of settings that are not settings; often misspelt, so they deserve
    a warning."""
    known = {PREFIX + name.upper() for name in Settings.__struct_fields__}
    return sorted(
        name
        for name in environ
        if name.startswith(PREFIX) and name not in known and not name.startswith(_FOREIGN_PREFIXES)
    )


def _present(secret: Secret | None, name: str) -> str:
    if secret is None:
        raise SettingsError(f"{PREFIX}{name}: not set; set it, or start with `stanchion up`")
    return secret.reveal()


@cache
def _annotations() -> dict[str, Any]:
    """The type of each field."""
    return get_type_hints(Settings, include_extras=True)


def _valid(name: str, value: object) -> Any:
    """``value`` as the type of the field ``name``, and in its form after validation. Raises
    ``SettingsError``."""
    try:
        typed = converted(value, _annotations()[name])
        return typed if typed is None or name not in _RULES else _RULES[name](typed)
    except ValueError as broken:
        raise SettingsError(f"{PREFIX}{name.upper()}: {broken}") from None


def _plain(value: Any) -> Any:
    """``value`` of a field as JSON has it."""
    if isinstance(value, tuple):
        return [str(each) for each in value]
    return str(value) if isinstance(value, Path) else value
