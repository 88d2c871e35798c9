"""Values of settings: text from the environment, JSON or typed values become the types of ``Settings``.

``msgspec`` converts; a larger library for validation would cost each process of an installation 5 MB.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import msgspec
from msgspec import Meta

MASTER_KEY_BYTES: Final = 32

OWN_PATHS: Final = ("/v1", "/console", "/docs", "/problems", "/healthz")
"""Paths of the API, with which the prefix of a proxy must not begin."""
_PATH_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)+", re.ASCII)

Networks = tuple[IPv4Network | IPv6Network, ...]

_TRUTH: Final[Mapping[str, bool]] = MappingProxyType(
    dict.fromkeys(("t", "yes", "y", "on"), True) | dict.fromkeys(("f", "no", "n", "off"), False)
)
"""Words besides those that the library knows: true, false, 1 and 0."""
_UNLIMITED: Final = Meta()


class Secret:
    """Text that ``repr`` and ``str`` mask."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "Secret('**********')"

    __str__ = __repr__


def converted(value: object, annotation: Any) -> Any:
    """``value`` as the type of a field's ``annotation``. A value of that type stays as it is.

    Raises ``ValueError`` with a requirement that does not contain the value.
    """
    if annotation == Networks:
        return _networks(value)
    wanted, _limits = _parts(annotation)
    if isinstance(value, str) and wanted in _REQUIREMENTS:
        value = value.strip()
        value = _TRUTH.get(value.lower(), value) if wanted is bool else value
    try:
        return msgspec.convert(value, annotation, strict=False, dec_hook=_from_text)
    except msgspec.ValidationError:
        # Some messages of the library contain the value.
        raise ValueError(_requirement(annotation)) from None


def _from_text(wanted: type, value: object) -> object:
    """A value of a type that the library does not know."""
    if isinstance(value, wanted):
        return value
    if not isinstance(value, str):
        raise ValueError("must be text")
    return wanted(value)


def _parts(annotation: Any) -> tuple[Any, Meta]:
    """The type of an annotation without ``None``, and its limits."""
    if get_origin(annotation) is Annotated:
        wanted, limits = get_args(annotation)
        return wanted, limits
    if NoneType in get_args(annotation):
        (member,) = (each for each in get_args(annotation) if each is not NoneType)
        return _parts(member)
    return annotation, _UNLIMITED


def _requirement(annotation: Any) -> str:
    wanted, limits = _parts(annotation)
    if get_origin(wanted) is Literal:
        choices = get_args(wanted)
        return f"must be {', '.join(choices[:-1])} or {choices[-1]}"
    requirement = _REQUIREMENTS.get(wanted, "must be text")
    if limits.max_length is not None:
        return f"{requirement} of at most {limits.max_length} characters"
    if limits.ge is None:
        return requirement
    return requirement + (
        f", at least {limits.ge}" if limits.le is None else f" from {limits.ge} to {limits.le}"
    )


_REQUIREMENTS: Final[Mapping[Any, str]] = MappingProxyType(
    {bool: "must be true or false", int: "must be a whole number", float: "must be a number"}
)


def _networks(value: object) -> Networks:
    if value == "none":
        return ()
    entries = value.split(",") if isinstance(value, str) else value
    try:
        if isinstance(entries, list | tuple):
            return tuple(ip_network(str(entry).strip()) for entry in entries)
    except ValueError:
        # The original message contains the value.
        pass
    raise ValueError("must be networks like 10.0.0.0/8, separated by commas")


# --- rules of single fields ---------------------------------------------------------------------------------


def absolute(path: Path) -> Path:
    """The path from the root; ``~`` is the user's home."""
    return path.expanduser().absolute()


def existing_file(path: Path) -> Path:
    """The absolute path of a file. Raises ``ValueError`` if there is none."""
    path = absolute(path)
    if not path.is_file():
        raise ValueError("no such file")
    return path


def with_scheme(*schemes: str) -> Callable[[Secret], Secret]:
    """The rule of an address of a server with one of ``schemes``."""

    def check(address: Secret) -> Secret:
        if not address.reveal().startswith(schemes):
            raise ValueError(f"must start with {' or '.join(schemes)}")
        return address

    return check


def web_address(address: str) -> str:
    """The address without slashes at its end. Raises ``ValueError`` if it is not one of the web."""
    if not address.startswith(("https://", "http://")):
        raise ValueError("must be an address that starts with https:// or http://")
    return address.rstrip("/")


def issuer_address(address: str) -> str:
    """The address of an OpenID Connect provider. Raises ``ValueError`` if it is neither HTTPS nor local."""
    local = ("http://127.0.0.1:", "http://localhost:", "http://[::1]:")
    if not address.startswith(("https://", *local)):
        raise ValueError("must be an address that starts with https://")
    return address


def is_path_prefix(text: str) -> bool:
    """Whether a proxy may serve the API under the path prefix ``text``, which has no slash at its end."""
    own = any(text == each or text.startswith(f"{each}/") for each in OWN_PATHS)
    return not own and _PATH_PREFIX.fullmatch(text) is not None


def path_prefix(text: str) -> str:
    """The prefix without slashes at its end. Raises ``ValueError`` if a proxy may not serve the API under
    it."""
    prefix = text.rstrip("/")
    if prefix and not is_path_prefix(prefix):
        raise ValueError(f"must be a path like /cards, and must not begin with {', '.join(OWN_PATHS)}")
    return prefix


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


def checked_master_keys(keys: Secret) -> Secret:
    """Check the text of the master keys. Raises ``ValueError`` as ``parse_master_keys`` does."""
    parse_master_keys(keys.reveal())
    return keys


def parse_headers(text: str) -> dict[str, str]:
    """Headers from ``name=value,name=value``. Raises ``ValueError``, without the text."""
    headers = {}
    for position, entry in enumerate(text.split(","), start=1):
        name, equals, value = entry.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"entry {position} must be name=value")
        headers[name.strip().lower()] = value.strip()
    return headers


def checked_headers(text: Secret) -> Secret:
    """Check the text of headers. Raises ``ValueError`` as ``parse_headers`` does."""
    parse_headers(text.reveal())
    return text
