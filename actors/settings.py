"""All settings of an installation, read once from ``STANCHION_*`` variables.

No other module reads the environment, so all values are documented and checked here. A process that starts
another passes its settings as bytes (``to_json``), without the master key: the arguments of actors stay in
the memory of the cluster's head. Each process reads the master key from its own environment or from the key
file.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from engine.limits import (
    HTTP_CONNECTIONS_MAX,
    HTTP_CONNECTIONS_PER_ADDRESS_MAX,
    TOKEN_FAILURES_PER_MINUTE,
)

PREFIX = "STANCHION_"
MASTER_KEY_BYTES = 32

# Variables of the test suite, the benchmarks and the chaos runs.
_FOREIGN_PREFIXES = ("STANCHION_TEST_", "STANCHION_BENCH_", "STANCHION_CHAOS")

OWN_PATHS = ("/v1", "/console", "/docs", "/problems", "/healthz")
"""Paths of the API, with which the prefix of a proxy must not begin."""
_PATH_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~-]+)+", re.ASCII)

_WRITABLE = "target_session_attrs=read-write"

Port = Annotated[int, Field(ge=0, le=65535)]
Networks = tuple[IPv4Network | IPv6Network, ...]


class SettingsError(Exception):
    """A setting cannot be used. The message is one line that names the variable without its value."""


def parse_master_keys(text: str) -> tuple[bytes, ...]:
    """Master keys from ``[label:]base64[,[label:]base64…]``, the current one first.

    Labels are for the operators who rotate keys. They may change, because sealed values hold an id derived
    from the key. Raises ``ValueError``, without the text, when an entry is not base64 of 32 bytes or occurs
    twice.
    """
    keys: list[bytes] = []
    for position, entry in enumerate(text.split(","), start=1):
        encoded = entry.strip().rpartition(":")[2]
        try:
            key = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != MASTER_KEY_BYTES:
            raise ValueError(f"key {position} must be {MASTER_KEY_BYTES} bytes in base64")
        if key in keys:
            raise ValueError(f"key {position} occurs twice")
        keys.append(key)
    return tuple(keys)


def parse_headers(text: str) -> dict[str, str]:
    """Headers from ``name=value,name=value``. Raises ``ValueError``, without the text."""
    headers = {}
    for position, entry in enumerate(text.split(","), start=1):
        name, equals, value = entry.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"entry {position} must be name=value")
        headers[name.strip().lower()] = value.strip()
    return headers


_FILES: Final = (
    "egress_ca_file",
    "links",
    "tls_cert_file",
    "tls_key_file",
    "metrics_tls_cert_file",
    "metrics_tls_key_file",
)


class Settings(BaseModel):
    """One installation. Each field is the variable ``STANCHION_<FIELD>``; unset fields have the default
    shown."""

    # Defaults are validated, too: ``var_dir`` becomes absolute.
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    # --- servers ------------------------------------------------------------------------------------------
    database_url: SecretStr | None = None
    """PostgreSQL 15 or newer, ``postgresql://user:password@host:port/name``; several servers, of which the
    one that accepts writes is used, as ``host:port,host:port``; unset = embedded, in ``var_dir``."""
    migrations_database_url: SecretStr | None = None
    """The same database, as the role that owns its tables; used by `stanchion up` and the other operator
    commands, and not passed to processes. Unset = ``database_url``."""
    allow_data_loss: bool = False
    """Whether to start although the loss of PostgreSQL's primary can lose acknowledged decisions: it has
    standbys that are not synchronous."""
    redis_url: SecretStr | None = None
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
    tls_key_file: Annotated[Path | None, Field(validate_default=True)] = None
    """Its unencrypted private key, PEM."""
    metrics_tls_cert_file: Path | None = None
    """The same for the metrics port; unset = plain HTTP."""
    metrics_tls_key_file: Annotated[Path | None, Field(validate_default=True)] = None
    """Its unencrypted private key, PEM."""
    connections_max: Annotated[int, Field(ge=16, le=65_536)] = HTTP_CONNECTIONS_MAX
    """Open connections on each HTTP port of each API server; idle ones give way to new ones."""
    connections_per_address_max: Annotated[int, Field(ge=1, le=65_536)] = HTTP_CONNECTIONS_PER_ADDRESS_MAX
    """Of these, connections from one address (IPv6: one /64); ``trusted_proxies`` are exempt."""

    # --- processes ----------------------------------------------------------------------------------------
    hosts: Annotated[int, Field(ge=1, le=256)] = 2
    """Shard hosts on each node: processes that own cards. More hosts than cores add no speed, but a crash
    then affects fewer cards."""
    api_servers: Annotated[int, Field(ge=1, le=256)] = 1
    """API server processes on each node."""
    dispatchers: Annotated[int, Field(ge=1, le=64)] = 1
    """Processes that send webhooks, spread over the nodes."""

    # --- operators ---------------------------------------------------------------------------------------
    operator: Annotated[str | None, Field(max_length=100)] = None
    """Name of the operator who runs a command, for the audit log; unset = the login name."""

    # --- behaviour ----------------------------------------------------------------------------------------
    enable_gateway: bool = False
    """Whether programmes may be created in gateway mode."""
    auto_clear_seconds: Annotated[int, Field(ge=0, le=31_536_000)] = 30
    """Seconds after which the simulated network clears an approved sale automatically; 0 = never."""
    rate_live_per_second: Annotated[int, Field(ge=1)] = 100
    """Requests a second for each tenant in live mode."""
    rate_test_per_second: Annotated[int, Field(ge=1)] = 1_000
    """Requests a second for each tenant in test mode, without simulations, in each API server."""
    quota_programmes: Annotated[int, Field(ge=1)] = 1_000
    """Programmes of a tenant in one mode."""
    quota_card_products: Annotated[int, Field(ge=1)] = 2_000
    """Card products of a tenant in one mode."""
    quota_cardholders: Annotated[int, Field(ge=1)] = 1_000_000
    """Cardholders of a tenant in one mode."""
    quota_cards: Annotated[int, Field(ge=1)] = 2_000_000
    """Cards of a tenant in one mode."""
    quota_keys_per_day: Annotated[int, Field(ge=1)] = 1_000_000
    """Idempotency keys that a tenant stores in 24 hours, in each API server."""
    quota_stored_mb_per_day: Annotated[int, Field(ge=1)] = 1_024
    """Megabytes of answers that a tenant stores under idempotency keys in 24 hours, in each API server."""
    rate_token_per_minute: Annotated[int, Field(ge=1)] = TOKEN_FAILURES_PER_MINUTE
    """Failed token requests and sign-ins a minute for each client_id, and tries of a password for each
    sign-in name; ten times as many failures for each source address. The right secret of a client is never
    refused."""
    rate_kyc_writes_per_minute: Annotated[int, Field(ge=1)] = 60
    """KYC writes a minute for each client."""

    # --- sign-in to the console -------------------------------------------------------------------------
    oidc_issuer: str | None = None
    """OpenID Connect provider through which users may sign in, as its metadata name it; unset = none."""
    oidc_client_id: Annotated[str | None, Field(validate_default=True)] = None
    """The id of this installation at the provider."""
    oidc_client_secret: SecretStr | None = None
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
    master_key: SecretStr | None = None
    """``[label:]base64`` of 32 bytes, several separated by commas, current first; unset = created once in
    ``var_dir/keys``."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_decisions: bool = False
    """Whether the log has a line for each decision, at the level ``info``."""
    otlp_endpoint: str | None = None
    """Base address of an OpenTelemetry collector, ``http://host:4318``, that receives traces over OTLP/HTTP;
    unset = no traces. Needs the package's extra ``otel``."""
    otlp_headers: SecretStr | None = None
    """Headers of the calls to it, ``name=value``, separated by commas."""
    trace_ratio: Annotated[float, Field(ge=0.0, le=1.0)] = 1.0
    """Share of the requests that are traced, unless the caller's ``traceparent`` decides."""

    @field_validator("var_dir", *_FILES)
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        return None if value is None else value.expanduser().absolute()

    @field_validator(*_FILES)
    @classmethod
    def _readable(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_file():
            raise ValueError("no such file")
        return value

    @field_validator("egress_allow", "trusted_proxies", mode="before")
    @classmethod
    def _networks(cls, value: object) -> object:
        if value == "none":
            return ()
        entries = value.split(",") if isinstance(value, str) else value
        if not isinstance(entries, list | tuple):
            return value
        try:
            return tuple(ip_network(str(entry).strip()) for entry in entries)
        except ValueError:
            # The original message contains the value.
            raise ValueError("must be networks like 10.0.0.0/8, separated by commas") from None

    @field_validator("database_url", "migrations_database_url", "redis_url")
    @classmethod
    def _scheme(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        schemes = (
            ("redis://", "rediss://") if info.field_name == "redis_url" else ("postgresql://", "postgres://")
        )
        if value is not None and not value.get_secret_value().startswith(schemes):
            raise ValueError(f"must start with {' or '.join(schemes)}")
        return value

    @field_validator("docs_base_url", "vision_base_url", "otlp_endpoint")
    @classmethod
    def _web_address(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("https://", "http://")):
            raise ValueError("must be an address that starts with https:// or http://")
        return None if value is None else value.rstrip("/")

    @field_validator("oidc_issuer")
    @classmethod
    def _issuer(cls, value: str | None) -> str | None:
        local = ("http://127.0.0.1:", "http://localhost:", "http://[::1]:")
        if value is not None and not value.startswith(("https://", *local)):
            raise ValueError("must be an address that starts with https://")
        return value

    @field_validator("oidc_client_id")
    @classmethod
    def _client_of_issuer(cls, value: str | None, info: ValidationInfo) -> str | None:
        if "oidc_issuer" in info.data and (value is None) != (info.data["oidc_issuer"] is None):
            raise ValueError("the issuer and the client id are set together")
        return value

    @field_validator("root_path")
    @classmethod
    def _prefix(cls, value: str) -> str:
        prefix = value.rstrip("/")
        if prefix and not is_path_prefix(prefix):
            raise ValueError(f"must be a path like /cards, and must not begin with {', '.join(OWN_PATHS)}")
        return prefix

    @field_validator("tls_key_file", "metrics_tls_key_file")
    @classmethod
    def _pair(cls, value: Path | None, info: ValidationInfo) -> Path | None:
        certificate = str(info.field_name).replace("key", "cert")
        # An invalid certificate path has an error of its own, and is absent here.
        if certificate in info.data and (value is None) != (info.data[certificate] is None):
            raise ValueError("the certificate and the key are set together")
        return value

    @field_validator("otlp_headers")
    @classmethod
    def _headers(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            parse_headers(value.get_secret_value())
        return value

    @field_validator("master_key")
    @classmethod
    def _keys(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            parse_master_keys(value.get_secret_value())
        return value

    @classmethod
    def load(cls, **overrides: Any) -> Self:
        """Settings of this process: ``overrides`` (from the command line) take precedence over the
        environment, and the environment over the defaults.

        Raises ``SettingsError`` with one line that names the first invalid variable.
        """
        try:
            return cls(**(cls._environment() | overrides))
        except ValidationError as broken:
            raise SettingsError(_first_error(broken)) from None

    @classmethod
    def _environment(cls) -> dict[str, str]:
        """The variables that are set and not empty, by field."""
        variables = {name: os.environ.get(PREFIX + name.upper()) for name in cls.model_fields}
        return {name: value for name, value in variables.items() if value}

    def replace(self, **changes: Any) -> Self:
        """A validated copy with some fields changed. Raises ``SettingsError`` as ``load`` does."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return self.load(**(values | changes))

    def to_json(self) -> bytes:
        """The settings that are not at their defaults, as bytes for another process, except the master key
        and the address for migrations. That process can be of another release, which does not know every
        setting."""
        secrets = ("database_url", "redis_url", "otlp_headers", "oidc_client_secret")
        values = self.model_dump(
            mode="json",
            exclude={"master_key", "migrations_database_url", *secrets},
            exclude_defaults=True,
        )
        # None too: an unset address must win over the environment of the other process.
        values |= {"database_url": None, "redis_url": None}
        for name in secrets:
            if secret := getattr(self, name):
                values[name] = secret.get_secret_value()
        return json.dumps(values).encode()

    @classmethod
    def from_json(cls, raw: bytes) -> Self:
        """The settings from another process's ``to_json``, with the master key from this process's
        environment. Names that this release does not know are left out."""
        fields = {name: each.get_default() for name, each in cls.model_fields.items() if name != "master_key"}
        given = {name: value for name, value in json.loads(raw).items() if name in fields}
        return cls.load(**(fields | given))

    @property
    def database_dsn(self) -> str:
        """The database address as text; the supervisor fills in the embedded server. Of several servers, only
        one that accepts writes is used. Raises ``SettingsError`` if it is not set."""
        return _writable(_present(self.database_url, "DATABASE_URL"))

    @property
    def migrations_dsn(self) -> str:
        """The database address of the role that owns the tables. Raises ``SettingsError`` if not set."""
        return _writable(_present(self.migrations_database_url or self.database_url, "DATABASE_URL"))

    @property
    def vision_address(self) -> str:
        """The base of all addresses on the vision host, without a trailing slash."""
        return self.vision_base_url or f"{self.web_scheme}://{self.api_host}:{self.vision_port}"

    @property
    def otlp_headers_by_name(self) -> dict[str, str]:
        """The headers of calls to the collector."""
        return {} if self.otlp_headers is None else parse_headers(self.otlp_headers.get_secret_value())

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


def _writable(dsn: str) -> str:
    """``dsn``; where it names several servers, restricted to one that accepts writes."""
    parts = urlsplit(dsn)
    if "," not in parts.netloc.rpartition("@")[2] or "target_session_attrs" in parts.query:
        return dsn
    return urlunsplit(parts._replace(query="&".join(filter(None, (parts.query, _WRITABLE)))))


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Names in ``environ`` with the prefix of settings that are not settings; often misspelt, so they deserve
    a warning."""
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    return sorted(
        name
        for name in environ
        if name.startswith(PREFIX) and name not in known and not name.startswith(_FOREIGN_PREFIXES)
    )


def is_path_prefix(text: str) -> bool:
    """Whether a proxy may serve the API under the path prefix ``text``, which has no slash at its end."""
    own = any(text == each or text.startswith(f"{each}/") for each in OWN_PATHS)
    return not own and _PATH_PREFIX.fullmatch(text) is not None


def _present(secret: SecretStr | None, name: str) -> str:
    if secret is None:
        raise SettingsError(f"{PREFIX}{name}: not set; set it, or start with `stanchion up`")
    return secret.get_secret_value()


def _first_error(broken: ValidationError) -> str:
    """One line for the first error, built from its field and message: pydantic's full text repeats the
    input."""
    error = broken.errors(include_url=False, include_context=False, include_input=False)[0]
    field = str(error["loc"][0]) if error["loc"] else ""
    message = error["msg"].removeprefix("Value error, ")
    return f"{PREFIX}{field.upper()}: {message[:1].lower()}{message[1:]}"
