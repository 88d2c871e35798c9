"""Passwords: Argon2id strings, and which passwords are refused."""

from __future__ import annotations

import pytest

from api.users.passwords import Passwords, fault_of, hash_of, is_current


async def test_password_matches_its_own_hash_only() -> None:
    passwords = Passwords()
    stored = await passwords.hash("correct horse battery")
    assert stored.startswith("$argon2id$v=19$m=47104,t=1,p=1$")
    assert is_current(stored)
    assert await passwords.verify("correct horse battery", stored)
    assert not await passwords.verify("correct horse batterx", stored)
    assert not await passwords.verify("correct horse battery", None)
    assert hash_of("correct horse battery") != stored


def test_hash_with_other_parameters_is_not_current() -> None:
    assert not is_current("$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$RdescudvJCsgt3ub+b4dWRWJTmaaJObG")


@pytest.mark.parametrize(
    ("password", "refused"),
    [
        ("correct horse battery", None),
        ("elevenchars", "at least 12"),
        ("x" * 257, "at most 256"),
        ("aaaaaaaaaaaaaaa", "repeats"),
        ("abababababababab", "repeats"),
        ("Ada@Example.com-2026", "holds your name"),
        ("ada lovelace rules", "holds your name"),
    ],
)
def test_weak_passwords_are_refused(password: str, refused: str | None) -> None:
    fault = fault_of(password, "ada@example.com", "Ada Lovelace")
    assert (fault is None) is (refused is None)
    assert refused is None or refused in str(fault)
