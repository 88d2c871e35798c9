"""MACs: published vectors of both algorithms, an independent implementation, and the bytes that are
covered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psec.mac import generate_retail_mac

from actors.vault import aes_cmac, mac_of
from engine.iso8583.elements import ElementError
from engine.iso8583.mac import (
    MAC_BYTES,
    PLACEHOLDER,
    MacKeyError,
    check_key,
    covered,
    mac_field,
    presented_mac,
    same_mac,
    with_mac,
)
from engine.iso8583.message import Message
from engine.iso8583.profiles import ISO87_ASCII
from tests.support.engine.iso8583.messages import message

DES_KEYS = bytes.fromhex("0123456789ABCDEFFEDCBA9876543210")
NIST_MESSAGE = bytes.fromhex(
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
    "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)
NIST_KEYS = {
    128: "2b7e151628aed2a6abf7158809cf4f3c",
    192: "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
    256: "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
}


@pytest.mark.parametrize(
    ("text", "algorithm", "expected"),
    [
        # ISO/IEC 9797-1, annex B: MAC algorithm 3 with DES.
        ("Now is the time for all ", "iso9797-alg3", "A1C72E74EA3FA9B6"),
        ("Now is the time for it", "iso9797-alg3", "2E2B1428CC78254F"),
        ("Now is the time for all ", "iso9797-alg3-pad2", "E9086230CA3BE796"),
        ("Now is the time for it", "iso9797-alg3-pad2", "5A692CE64F404145"),
    ],
)
def test_retail_mac_equals_the_vectors_of_the_standard(text: str, algorithm: str, expected: str) -> None:
    assert mac_of(algorithm, DES_KEYS, text.encode()).hex().upper() == expected


@pytest.mark.parametrize(
    ("bits", "length", "expected"),
    [
        # NIST SP 800-38B, appendix D.
        (128, 0, "bb1d6929e95937287fa37d129b756746"),
        (128, 16, "070a16b46b4d4144f79bdd9dd04a287c"),
        (128, 40, "dfa66747de9ae63030ca32611497c827"),
        (128, 64, "51f0bebf7e3b9d92fc49741779363cfe"),
        (192, 0, "d17ddf46adaacde531cac483de7a9367"),
        (192, 16, "9e99a7bf31e710900662f65e617c5184"),
        (192, 40, "8a1de5be2eb31aad089a82e6ee908b0e"),
        (192, 64, "a1d5df0eed790f794d77589659f39a11"),
        (256, 0, "028962f61b7bf89efc6b551f4667d983"),
        (256, 16, "28a7023f452e8f82bd4bf28d8c37c35c"),
        (256, 40, "aaf3d8f1de5640c232f5b169b9c911e6"),
        (256, 64, "e1992190549f6ed5696a2c056c315410"),
    ],
)
def test_aes_cmac_equals_the_vectors_of_nist(bits: int, length: int, expected: str) -> None:
    key, data = bytes.fromhex(NIST_KEYS[bits]), NIST_MESSAGE[:length]
    assert aes_cmac(key, data).hex() == expected
    assert mac_of("aes-cmac", key, data).hex() == expected[: 2 * MAC_BYTES]


@pytest.mark.filterwarnings("ignore")  # psec uses ciphers that its dependency has deprecated
@pytest.mark.parametrize(("algorithm", "padding"), [("iso9797-alg3", 1), ("iso9797-alg3-pad2", 2)])
@given(key=st.binary(min_size=16, max_size=16), data=st.binary(min_size=1, max_size=300))
def test_retail_mac_equals_an_independent_implementation(
    algorithm: str, padding: int, key: bytes, data: bytes
) -> None:
    assert mac_of(algorithm, key, data) == generate_retail_mac(key[:8], key[8:], data, padding)


@pytest.mark.parametrize(
    ("algorithm", "key"),
    [
        ("iso9797-alg3", bytes(8)),
        ("iso9797-alg3", bytes(24)),
        ("iso9797-alg3-pad2", bytes(15)),
        ("aes-cmac", bytes(8)),
        ("aes-cmac", b""),
        ("hmac-md5", bytes(16)),
    ],
)
def test_key_that_does_not_fit_its_algorithm_is_refused(algorithm: str, key: bytes) -> None:
    with pytest.raises(MacKeyError):
        check_key(algorithm, key)
    with pytest.raises(MacKeyError):
        mac_of(algorithm, key, b"data")


@pytest.mark.parametrize(("fields", "number"), [({}, 64), ({70: "001"}, 128)])
def test_mac_covers_all_bytes_before_it(fields: dict[int, str | None], number: int) -> None:
    plain = message(fields)
    assert mac_field(plain.fields) == number
    payload = ISO87_ASCII.encode(Message(plain.mti, plain.fields | {number: PLACEHOLDER}))
    mac = mac_of("aes-cmac", bytes(16), covered(payload))
    sealed = with_mac(payload, mac)
    assert len(sealed) == len(payload)
    assert covered(sealed) == covered(payload)
    presented = presented_mac(ISO87_ASCII.decode(sealed).fields)
    assert presented is not None
    assert same_mac(presented, mac)
    for at in range(len(covered(sealed))):
        altered = bytearray(covered(sealed))
        altered[at] ^= 1
        assert not same_mac(presented, mac_of("aes-cmac", bytes(16), bytes(altered)))


def test_binary_mac_has_eight_bytes_on_the_wire() -> None:
    mac = bytes(range(8))
    assert with_mac(b"message" + bytes(8), mac, MAC_BYTES) == b"message" + mac
    assert covered(b"message" + mac, MAC_BYTES) == b"message"


def test_message_without_mac_presents_none() -> None:
    assert presented_mac(message().fields) is None


@pytest.mark.parametrize(
    ("fields", "number"),
    [
        ({64: "garbage garbage!"}, 64),
        ({64: "0123456789ABCDE"}, 64),
        ({64: "0123456789ABCDEF", 70: "001"}, 64),
        ({64: "0123456789ABCDEF", 128: "0123456789ABCDEF"}, 64),
        ({128: "                "}, 128),
    ],
)
def test_malformed_or_misplaced_mac_is_an_element_error(fields: dict[int, str], number: int) -> None:
    with pytest.raises(ElementError) as refused:
        presented_mac(fields)
    assert refused.value.field == number
    assert all(value not in str(refused.value) for value in fields.values())
