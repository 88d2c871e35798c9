"""The README's first spend, pasted into a shell as a newcomer does; and its table of settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from actors.settings import Settings
from tests.integration.stack import Stack

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
MARK = "=== end of block"


def steps() -> Iterator[tuple[str, list[str]]]:
    """Each shell block of the first spend, with the lines of JSON that are shown beneath it."""
    section = README.partition("\n## First spend\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert {language for language, _ in blocks} == {"bash", "json"}
    for (language, text), (follower, shown) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if language == "bash":
            yield text, shown.splitlines() if follower == "json" else []


def test_the_first_spend_goes_as_printed(stack: Stack, tmp_path: Path) -> None:
    (tmp_path / "var").symlink_to(stack.installation.var_dir)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/bin").symlink_to(Path(sys.executable).parent)
    told = list(steps())
    script = "set -euo pipefail\n" + f"\necho '{MARK}'\n".join(block for block, _ in told)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    printed = done.stdout.split(f"{MARK}\n")
    assert len(printed) == len(told)
    assert sum(len(shown) for _, shown in told) > 15
    for output, (_, shown) in zip(printed, told, strict=True):
        lines = [line.strip() for line in output.splitlines()]
        assert not [line for line in shown if line not in lines], output
    assert re.fullmatch(r"All \d+ promises hold\.\n", printed[-1])


def test_every_setting_is_in_the_table() -> None:
    table = README.partition("\n## Settings\n")[2]
    named = set(re.findall(r"STANCHION_[A-Z0-9_]+", table))
    assert named == {f"STANCHION_{name.upper()}" for name in Settings.model_fields}
