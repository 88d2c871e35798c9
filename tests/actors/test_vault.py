"""The vault: a value opens only with its purpose, context and key, and errors and reprs reveal no secrets."""

from __future__ import annotations

import base64
import hmac
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.settings import Settings
from actors.vault import DIGEST_BYTES, Vault, VaultError, _KeyedDigest, tdes_block

OLD = bytes(range(32))
NEW = bytes(range(32, 64))
PLAIN = b"4111111111111111"


def settings(tmp_path: Path, master_key: str | None = None) -> Settings:
    return Settings.load(var_dir=tmp_path, master_key=master_key)


@given(st.binary(max_size=300), st.binary(max_size=40), st.text(max_size=10))
def test_sealed_value_opens_again(plaintext: bytes, context: bytes, purpose: str) -> None:
    vault = Vault((OLD,))
    sealed = vault.seal(purpose, plaintext, context)
    assert vault.open(purpose, sealed, context) == plaintext
    assert len(sealed) == len(plaintext) + 33
    assert sealed != vault.seal(purpose, plaintext, context)


def test_value_does_not_open_with_another_purpose_context_or_key() -> None:
    vault = Vault((OLD,))
    sealed = vault.seal("pan", PLAIN, b"card-1")
    for purpose, context, other in (
        ("kyc", b"card-1", vault),
        ("pan", b"card-2", vault),
        ("pan", b"", vault),
        ("pan", b"card-1", Vault((NEW,))),
    ):
        with pytest.raises(VaultError) as failure:
            other.open(purpose, sealed, context)
        assert PLAIN.decode() not in str(failure.value)
        assert failure.value.__cause__ is None


def test_altered_or_truncated_value_is_refused() -> None:
    vault = Vault((OLD,))
    sealed = vault.seal("pan", PLAIN)
    for index in range(len(sealed)):
        altered = bytearray(sealed)
        altered[index] ^= 1
        with pytest.raises(VaultError):
            vault.open("pan", bytes(altered))
        with pytest.raises(VaultError):
            vault.open("pan", sealed[:index])


def test_rotation_opens_old_values_seals_with_the_new_key_and_keeps_digests() -> None:
    before, rotated, after = Vault((OLD,)), Vault((NEW, OLD)), Vault((NEW,))
    old_value = before.seal("pan", PLAIN)
    new_value = rotated.seal("pan", PLAIN)
    assert (
        rotated.open("pan", old_value)
        == rotated.open("pan", new_value)
        == after.open("pan", new_value)
        == PLAIN
    )
    with pytest.raises(VaultError, match="not in the list"):
        before.open("pan", new_value)
    assert rotated.digest("pan-lookup", PLAIN) == before.digest("pan-lookup", PLAIN)
    assert rotated.digest("pan-lookup", PLAIN) != after.digest("pan-lookup", PLAIN)
    assert rotated.cvk_pair("1") == before.cvk_pair("1")


def test_data_key_opens_only_values_that_it_sealed() -> None:
    vault = Vault((OLD,))
    key, wrapped = vault.new_data_key("kyc-data-key", b"case-1")
    sealed = key.seal(PLAIN, b"family_name")
    assert vault.data_key("kyc-data-key", wrapped, b"case-1").open(sealed, b"family_name") == PLAIN
    assert PLAIN not in sealed
    stranger, _ = vault.new_data_key("kyc-data-key", b"case-1")
    for other, context in ((key, b"given_name"), (stranger, b"family_name")):
        with pytest.raises(VaultError):
            other.open(sealed, context)
    for index in range(len(sealed)):
        with pytest.raises(VaultError):
            key.open(sealed[:index], b"family_name")
    for purpose, context in (("kyc-data-key", b"case-2"), ("pan", b"case-1")):
        with pytest.raises(VaultError):
            vault.data_key(purpose, wrapped, context)
    assert repr(key) == "<DataKey>"
    with pytest.raises(VaultError):
        pickle.dumps(key)


def test_reseal_moves_a_value_to_the_current_key_once() -> None:
    before, rotated, after = Vault((OLD,)), Vault((NEW, OLD)), Vault((NEW,))
    sealed = before.seal("kyc-data-key", PLAIN, b"case-1")
    moved = rotated.reseal("kyc-data-key", sealed, b"case-1")
    assert moved is not None
    assert after.open("kyc-data-key", moved, b"case-1") == PLAIN
    assert rotated.reseal("kyc-data-key", moved, b"case-1") is None
    with pytest.raises(VaultError):
        rotated.reseal("kyc-data-key", sealed, b"case-2")


def test_digests_depend_on_purpose_and_value() -> None:
    vault = Vault((OLD,))
    digests = {vault.digest(purpose, value) for purpose in ("a", "b") for value in (b"1", b"2")}
    assert len(digests) == 4
    assert {len(digest) for digest in digests} == {32}
    assert vault.digest("a", b"1") == Vault((OLD,)).digest("a", b"1")


@given(st.binary(min_size=DIGEST_BYTES, max_size=DIGEST_BYTES), st.binary(max_size=200))
def test_digests_are_hmacs(key: bytes, value: bytes) -> None:
    assert _KeyedDigest(key).of(value) == hmac.digest(key, value, "sha256")


def test_each_generation_has_two_different_card_verification_keys() -> None:
    vault = Vault((OLD,))
    first, second = vault.cvk_pair("2026-1"), vault.cvk_pair("2026-2")
    assert first != second
    assert len(first) == 16
    assert first[:8] != first[8:]
    assert all(byte.bit_count() % 2 == 1 for byte in first)


def test_triple_des_matches_published_vectors() -> None:
    # FIPS 46-3 single DES, and NIST SP 800-20's first double-length permutation pattern in the same form.
    assert (
        tdes_block(bytes.fromhex("133457799BBCDFF1"), bytes.fromhex("0123456789ABCDEF")).hex()
        == "85e813540f0ab405"
    )
    one, two = bytes.fromhex("133457799BBCDFF1"), bytes.fromhex("0E329232EA6D0D73")
    block = bytes.fromhex("8787878787878787")
    assert tdes_block(two, block) == bytes(8)
    assert tdes_block(one + one, block) == tdes_block(one, block)


def test_repr_pickle_and_errors_do_not_reveal_keys() -> None:
    vault = Vault((OLD,))
    assert repr(vault) == str(vault) == "<Vault>"
    with pytest.raises(VaultError):
        pickle.dumps(vault)
    with pytest.raises(VaultError) as failure:
        Vault((b"short-key",))
    assert "short-key" not in str(failure.value)


def test_key_file_is_created_once_and_private(tmp_path: Path) -> None:
    sealed = Vault.from_settings(settings(tmp_path)).seal("pan", PLAIN)
    path = tmp_path / "keys" / "master.key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["master.key"]
    assert Vault.from_settings(settings(tmp_path)).open("pan", sealed) == PLAIN


def test_concurrent_starts_agree_on_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as executor:
        vaults = list(executor.map(lambda _: Vault.from_settings(settings(tmp_path)), range(16)))
    assert len({vault.digest("same", b"") for vault in vaults}) == 1


def test_readable_or_invalid_key_file_is_refused(tmp_path: Path) -> None:
    Vault.from_settings(settings(tmp_path))
    path = tmp_path / "keys" / "master.key"
    path.chmod(0o644)
    with pytest.raises(VaultError, match="chmod 600"):
        Vault.from_settings(settings(tmp_path))
    path.chmod(0o600)
    path.write_text("not-a-key")
    with pytest.raises(VaultError, match="does not hold a master key") as failure:
        Vault.from_settings(settings(tmp_path))
    assert "not-a-key" not in str(failure.value)


def test_setting_takes_precedence_over_the_file_and_labels_may_change(tmp_path: Path) -> None:
    key = base64.b64encode(OLD).decode()
    sealed = Vault.from_settings(settings(tmp_path, key)).seal("pan", PLAIN)
    assert not (tmp_path / "keys").exists()
    listed = f"2027:{base64.b64encode(NEW).decode()}, 2026:{key}"
    assert Vault.from_settings(settings(tmp_path, listed)).open("pan", sealed) == PLAIN


def test_vault_agrees_with_a_proof_if_it_has_the_same_keys(tmp_path: Path) -> None:
    old, new, stranger = (bytes([number]) * 32 for number in range(3))
    before, rotated = Vault((old,)), Vault((new, old))
    assert before.agrees(before.proof())
    assert rotated.agrees(before.proof())
    assert not before.agrees(rotated.proof()), "it cannot open values sealed under the new key"
    assert not Vault((old, new)).agrees(rotated.proof()), "its digests differ"
    assert not Vault((stranger,)).agrees(before.proof())
    assert not before.agrees(b"")


def test_missing_key_file_is_refused_if_it_may_not_be_created(tmp_path: Path) -> None:
    with pytest.raises(VaultError, match="STANCHION_MASTER_KEY"):
        Vault.from_settings(settings(tmp_path), make=False)
    assert list(tmp_path.iterdir()) == []
