"""References, by which a message names an earlier authorization."""

from __future__ import annotations


def reference_of_network(network_txn_id: str) -> str:
    """The reference of a network transaction id."""
    return f"n:{network_txn_id}"


def reference_of_message(command_key: bytes) -> str:
    """The reference of the message with ``command_key``."""
    return f"k:{command_key.hex()}"


def key_of_message(reference: str) -> bytes:
    """The command key in the reference of a message."""
    return bytes.fromhex(reference.removeprefix("k:"))


def is_network(reference: str) -> bool:
    """Whether ``reference`` is a network transaction id, which several authorizations can share."""
    return reference.startswith("n:")


def is_message(reference: str) -> bool:
    """Whether ``reference`` names a message, not a network transaction id or an authorization."""
    return reference.startswith("k:")


def reference_of_id(authorization_id: str) -> str:
    """The reference of an authorization's own id."""
    return f"a:{authorization_id}"
