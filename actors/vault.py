"""All cryptographic keys: encryption at rest, keyed digests for look-ups, and the card verification keys.

Every key is derived from the list of master keys by HKDF, one for each purpose. So a value sealed for one
purpose cannot be opened for another, and a digest of one kind does not match one of another kind. Key
material is never printed, pickled or put into an exception.

Rotation: the first master key seals, and every listed one opens. Look-up digests and card verification keys
must stay the same while rows refer to them, so they are derived from the *last* (oldest) listed key. Before
that key is dropped from the list, those rows must be re-keyed.
"""

from __future__ import annotations

import base64
import hmac
import os
import secrets
import stat
from hashlib import sha256
from pathlib import Path
from typing import Final, NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.cmac import CMAC
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from actors.setting_values import MASTER_KEY_BYTES, parse_master_keys
from actors.settings import Settings
from engine.iso8583 import mac

DIGEST_BYTES: Final = 32
CVK_PAIR_BYTES: Final = 16
DATA_KEY_BYTES: Final = 32

_FORMAT: Final = 1
_KEY_ID_BYTES: Final = 4
_NONCE_BYTES: Final = 12
_TAG_BYTES: Final = 16
_HEADER_BYTES: Final = 1 + _KEY_ID_BYTES
_SHA256_BLOCK_BYTES: Final = 64
_SALT: Final = b"stanchion/1"
_PROOF: Final = "same-keys"


class VaultError(Exception):
    """A value cannot be sealed or opened. The message never contains a value or a key."""


class Vault:
    """Seals, opens and digests under keys derived from the master keys. Safe to share between threads.

    Sealed form: format (1 byte, 1) · key id (4) · nonce (12) · AES-256-GCM ciphertext and tag; ``context`` is
    authenticated but not stored. The key id is derived from the master key, not from its label.
    """

    def __init__(self, master_keys: tuple[bytes, ...]) -> None:
        """``master_keys``: 32 bytes each, the current one first, the oldest last."""
        if not master_keys or any(len(key) != MASTER_KEY_BYTES for key in master_keys):
            raise VaultError(f"a vault needs master keys of {MASTER_KEY_BYTES} bytes")
        self._masters = {_derive(key, b"key-id", _KEY_ID_BYTES): key for key in master_keys}
        self._current_id = next(iter(self._masters))
        self._oldest = master_keys[-1]
        self._ciphers: dict[tuple[bytes, str], AESGCM] = {}
        self._digests: dict[str, _KeyedDigest] = {}
        self._cvk_pairs: dict[str, bytes] = {}

    @classmethod
    def from_settings(cls, settings: Settings, *, make: bool = True) -> Vault:
        """The vault of this installation: from its ``master_key``, or from the key file in ``var_dir``, which
        is created on first use. Raises ``VaultError`` if the file is missing and ``make`` is false."""
        if settings.master_key is not None:
            return cls(parse_master_keys(settings.master_key.reveal()))
        return cls(_key_file(settings.var_dir / "keys" / "master.key", make))

    @property
    def key_ids(self) -> tuple[bytes, ...]:
        """The ids of the master keys in sealed values, in the order of the list."""
        return tuple(self._masters)

    def seal(self, purpose: str, plaintext: bytes, context: bytes = b"") -> bytes:
        """Encrypt ``plaintext`` under the current key of ``purpose``; only the same purpose and ``context``
        open it again."""
        nonce = os.urandom(_NONCE_BYTES)
        ciphertext = self._cipher(self._current_id, purpose).encrypt(nonce, plaintext, context)
        return b"".join((bytes((_FORMAT,)), self._current_id, nonce, ciphertext))

    def open(self, purpose: str, sealed: bytes, context: bytes = b"") -> bytes:
        """The plaintext of a sealed value. Raises ``VaultError`` if it was altered, or sealed under another
        key, purpose or context."""
        if len(sealed) < _HEADER_BYTES + _NONCE_BYTES + _TAG_BYTES or sealed[0] != _FORMAT:
            raise VaultError("not a sealed value")
        key_id, nonce = bytes(sealed[1:_HEADER_BYTES]), sealed[_HEADER_BYTES : _HEADER_BYTES + _NONCE_BYTES]
        if key_id not in self._masters:
            raise VaultError("sealed under a master key that is not in the list")
        try:
            return self._cipher(key_id, purpose).decrypt(
                nonce, sealed[_HEADER_BYTES + _NONCE_BYTES :], context
            )
        except InvalidTag:
            raise VaultError("the sealed value cannot be opened for this purpose and context") from None

    def reseal(self, purpose: str, sealed: bytes, context: bytes = b"") -> bytes | None:
        """The value sealed under the current key, or ``None`` if it already is. Raises ``VaultError`` as
        ``open`` does."""
        plaintext = self.open(purpose, sealed, context)
        return None if sealed[1:_HEADER_BYTES] == self._current_id else self.seal(purpose, plaintext, context)

    def new_data_key(self, purpose: str, context: bytes) -> tuple[DataKey, bytes]:
        """A new random key, and the same key sealed for ``purpose`` and ``context``: the only form in which
        it may be stored."""
        key = os.urandom(DATA_KEY_BYTES)
        return DataKey(key), self.seal(purpose, key, context)

    def data_key(self, purpose: str, wrapped: bytes, context: bytes) -> DataKey:
        """The key that ``new_data_key`` sealed. Raises ``VaultError`` as ``open`` does."""
        return DataKey(self.open(purpose, wrapped, context))

    def digest(self, purpose: str, value: bytes) -> bytes:
        """HMAC-SHA256 of ``value`` under the oldest key of ``purpose``: 32 bytes, the same on every machine
        and after rotation."""
        keyed = self._digests.get(purpose)
        if keyed is None:
            key = _derive(self._oldest, b"digest:" + purpose.encode(), DIGEST_BYTES)
            keyed = self._digests[purpose] = _KeyedDigest(key)
        return keyed.of(value)

    def proof(self) -> bytes:
        """A sealed value by which another vault checks that it has the same keys (``agrees``). It reveals no
        key."""
        return self.seal(_PROOF, self.digest(_PROOF, b""))

    def agrees(self, proof: bytes) -> bool:
        """Whether this vault computes the same digests as the vault of ``proof`` and can open its values."""
        try:
            return hmac.compare_digest(self.open(_PROOF, proof), self.digest(_PROOF, b""))
        except VaultError:
            return False

    def cvk_pair(self, generation: str) -> bytes:
        """The card verification keys A and B (8 bytes each, odd parity) of a card's ``cvk_generation``."""
        pair = self._cvk_pairs.get(generation)
        if pair is None:
            raw = _derive(self._oldest, b"cvk:" + generation.encode(), CVK_PAIR_BYTES)
            pair = self._cvk_pairs[generation] = bytes(_odd_parity(byte) for byte in raw)
        return pair

    def _cipher(self, key_id: bytes, purpose: str) -> AESGCM:
        cipher = self._ciphers.get((key_id, purpose))
        if cipher is None:
            cipher = AESGCM(_derive(self._masters[key_id], b"seal:" + purpose.encode(), MASTER_KEY_BYTES))
            self._ciphers[key_id, purpose] = cipher
        return cipher

    def __repr__(self) -> str:
        return "<Vault>"

    def __reduce__(self) -> NoReturn:
        # A pickled vault would put the master keys into actor arguments and their storage.
        raise VaultError("a vault cannot be pickled; build it from the settings in each process")


class _KeyedDigest:
    """HMAC-SHA256 under one key (RFC 2104). The key's blocks are hashed once, not for each card number."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        """``key``: at most one block of SHA-256 (64 bytes)."""
        block = key.ljust(_SHA256_BLOCK_BYTES, b"\0")
        self._inner = sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = sha256(bytes(byte ^ 0x5C for byte in block))

    def of(self, value: bytes) -> bytes:
        """The 32 bytes of ``hmac.digest``."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(value)
        outer.update(inner.digest())
        return outer.digest()


class DataKey:
    """A random key in use. Destroying its sealed form destroys all values that it sealed.

    Sealed form: nonce (12) · AES-256-GCM ciphertext and tag; ``context`` is authenticated but not stored.
    """

    def __init__(self, key: bytes) -> None:
        self._aead = AESGCM(key)

    def seal(self, plaintext: bytes, context: bytes) -> bytes:
        """Encrypt ``plaintext``; only the same key and ``context`` open it again."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._aead.encrypt(nonce, plaintext, context)

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """The plaintext. Raises ``VaultError`` if it was altered, or sealed with another key or context."""
        if len(sealed) < _NONCE_BYTES + _TAG_BYTES:
            raise VaultError("not a sealed value")
        try:
            return self._aead.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], context)
        except InvalidTag:
            raise VaultError("the sealed value cannot be opened with this key and context") from None

    def __repr__(self) -> str:
        return "<DataKey>"

    def __reduce__(self) -> NoReturn:
        raise VaultError("a data key cannot be pickled")


def tdes_block(key: bytes, block: bytes) -> bytes:
    """Encrypt one 8-byte block with Triple DES; with an 8-byte ``key`` it is single DES (three equal keys).

    It is passed to the pure CVV2 algorithm, because the engine imports no cipher.
    """
    # ECB of exactly one block is the plain block cipher, which the algorithm uses.
    encryptor = Cipher(TripleDES(key * 3 if len(key) == 8 else key + key[:8]), modes.ECB()).encryptor()
    return encryptor.update(block) + encryptor.finalize()


def mac_of(algorithm: str, key: bytes, data: bytes) -> bytes:
    """The MAC of ``data`` (``engine.iso8583.mac``): 8 bytes. Raises ``MacKeyError``."""
    return mac.mac_of(algorithm, key, data, _MAC_CIPHERS)


def aes_cmac(key: bytes, data: bytes) -> bytes:
    """AES-CMAC (NIST SP 800-38B) under a key of 16, 24 or 32 bytes: 16 bytes."""
    keyed = CMAC(AES(key))
    keyed.update(data)
    return keyed.finalize()


def _des_chain(key: bytes, data: bytes) -> bytes:
    encryptor = Cipher(TripleDES(key * 3), modes.CBC(bytes(len(key)))).encryptor()
    return (encryptor.update(data) + encryptor.finalize())[-len(key) :]


_MAC_CIPHERS: Final = mac.MacCiphers(_des_chain, tdes_block, aes_cmac)


def _derive(master: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=_SALT, info=info).derive(master)


def _odd_parity(byte: int) -> int:
    return byte if byte.bit_count() % 2 else byte ^ 1


def _key_file(path: Path, make: bool) -> tuple[bytes, ...]:
    """Keys from ``path``, in the format of the setting. A missing file is created with one random key."""
    if not path.exists():
        if not make:
            raise VaultError("this node has no master key: set STANCHION_MASTER_KEY on every node")
        _create_key_file(path)
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise VaultError(f"{path} must be readable by its owner alone (chmod 600)")
    try:
        return parse_master_keys(path.read_text("ascii").strip())
    except ValueError:
        # The cause would contain the text of the file.
        raise VaultError(f"{path} does not hold a master key") from None


def _create_key_file(path: Path) -> None:
    """Write a new key beside ``path`` and link it into place: if several processes start at once, all use the
    key of the first."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(base64.b64encode(os.urandom(MASTER_KEY_BYTES)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            pass  # another process was first: its key is used
    finally:
        draft.unlink()
