"""TLS of links: both sides present a certificate, and files are read again when they change."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from actors.network.links.entry import LinkEntry, TlsEntry, TlsVersion
from actors.tls import ReloadedContext, fault_of, load_certificate

_VERSIONS: Final[Mapping[TlsVersion, ssl.TLSVersion]] = {
    "1.2": ssl.TLSVersion.TLSv1_2,
    "1.3": ssl.TLSVersion.TLSv1_3,
}


class TlsFilesError(OSError):
    """A file of a link's TLS cannot be used. ``field``: its field in ``links.toml``."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


def link_tls(entry: LinkEntry) -> ReloadedContext:
    """The contexts for new connections of ``entry``, whose ``tls`` is set. Raises ``TlsFilesError``."""
    tls = entry.tls
    assert tls is not None, "the link has TLS"
    for field, path in (("cert", tls.cert), ("key", tls.key), ("ca", tls.ca)):
        if not path.is_file():
            raise TlsFilesError(field, "no such file")
    return ReloadedContext((tls.cert, tls.key, tls.ca), partial(_context, tls, entry.listens))


def _context(tls: TlsEntry, listens: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if listens else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.options |= ssl.OP_NO_RENEGOTIATION
    # A client has this mode already; a server would accept clients without a certificate.
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        load_certificate(context, tls.cert, tls.key)
    except OSError as failure:
        raise TlsFilesError("cert", _problem(failure, "the chain and its unencrypted key")) from None
    try:
        context.load_verify_locations(tls.ca)
    except OSError as failure:
        raise TlsFilesError("ca", _problem(failure, "certificates")) from None
    return context


def _problem(failure: OSError, content: str) -> str:
    if isinstance(failure, ssl.SSLError):
        return f"must hold {content} in PEM ({fault_of(failure)})"
    return f"cannot be read ({failure.strerror})"


def names_in(certificate: Mapping[str, Any]) -> Iterator[str]:
    """The DNS names and the common names of a peer's certificate (``SSLObject.getpeercert``)."""
    for kind, value in certificate.get("subjectAltName", ()):
        if kind == "DNS":
            yield value
    for attributes in certificate.get("subject", ()):
        for kind, value in attributes:
            if kind == "commonName":
                yield value


def is_accepted(tls: TlsEntry, certificate: Mapping[str, Any] | None) -> bool:
    """Whether a client with this verified certificate may use the link."""
    if not tls.client_names:
        return certificate is not None
    return certificate is not None and not set(tls.client_names).isdisjoint(names_in(certificate))
