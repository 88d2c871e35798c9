"""``stanchion verify``: checking stored deliveries on the command line."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.webhooks.signature import secret_of, sign
from ops.commands.verify import verify_delivery
from stanchion import SignatureError

ROOT = Path(__file__).parents[3]
BODY = b'{"id":"1","data":{"name":"caf\xc3\xa9"}}'
SECRET, OTHER = secret_of(b"a" * 32), secret_of(b"b" * 32)
LONG_AGO = sign(BODY, [SECRET], 1_700_000_000)


def run(*arguments: str, body: bytes, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "ops", "verify", *arguments],
        cwd=ROOT,
        input=body,
        env=os.environ | environment,
        capture_output=True,
        check=False,
    )


def test_a_valid_delivery_exits_0_and_an_altered_one_1() -> None:
    header = sign(BODY, [OTHER, SECRET], int(time.time()))
    good = run("--header", header, "--secret", SECRET, body=BODY)
    assert (good.returncode, good.stdout) == (0, b"The signature is good.\n")
    bad = run("--header", header, body=BODY + b"\n", WEBHOOK_SECRET=SECRET)
    assert (bad.returncode, bad.stdout) == (1, b"")
    assert bad.stderr == b"stanchion: the signature is not valid: no_match\n"


def test_a_file_is_read_byte_for_byte(tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(BODY)
    verify_delivery(str(tmp_path / "body"), LONG_AGO, [OTHER, SECRET], now=1_700_000_300)
    (tmp_path / "body").write_bytes(BODY + b"\n")
    with pytest.raises(SignatureError, match="no_match"):
        verify_delivery(str(tmp_path / "body"), LONG_AGO, [SECRET], now=1_700_000_300)


def test_the_age_counts_unless_any_time_is_given(tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(BODY)
    with pytest.raises(SignatureError, match="outside_tolerance"):
        verify_delivery(str(tmp_path / "body"), LONG_AGO, [SECRET], now=1_700_000_301)
    verify_delivery(str(tmp_path / "body"), LONG_AGO, [SECRET], now=1_700_000_301, any_time=True)
