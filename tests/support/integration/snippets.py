"""Run the snippets of documentation pages in one shell and compare the output with the pages."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

MARK = "=== end of snippet"
SECONDS_MAX = 400
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_RUN = {"bash": "{}", "python": ".venv/bin/python - <<'END OF PYTHON'\n{}END OF PYTHON\n"}
_SHOWN = {"json", "text"}


@dataclass(frozen=True)
class Snippet:
    """A command and expected lines of its output; ``…`` matches any text."""

    page: str
    command: str
    shown: tuple[str, ...]

    def missing_in(self, printed: str) -> list[str]:
        """The expected lines that are missing in the output."""
        lines = (line.strip() for line in printed.splitlines())
        return [shown for shown in self.shown if not any(_fits(shown, line) for line in lines)]


def _fits(shown: str, line: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, shown.strip().split("…"))), line) is not None


def snippets(page: str, markdown: str) -> Iterator[Snippet]:
    """The runnable snippets of a page; a ``json`` or ``text`` fence after one is its expected output."""
    fences = _FENCE.findall(markdown)
    assert {language for language, _ in fences} <= _RUN.keys() | _SHOWN, page
    for (language, text), (follower, shown) in pairwise([*fences, ("", "")]):
        if language in _RUN:
            lines = shown.splitlines() if follower in _SHOWN else []
            yield Snippet(page, _RUN[language].format(text), tuple(lines))


def paste(
    chosen: Iterable[Snippet], var_dir: Path, folder: Path, variables: Mapping[str, str] | None = None
) -> list[tuple[Snippet, str]]:
    """Run all snippets in one shell in ``folder``, beside the installation of ``var_dir``; return each with
    its output. ``variables`` are added to the shell's PATH and HOME."""
    chosen = list(chosen)
    (folder / "var").symlink_to(var_dir)
    (folder / ".venv").symlink_to(sys.prefix)
    # End the background jobs with the shell.
    begin = "set -euo pipefail\ntrap 'kill $(jobs -p) 2> /dev/null || true' EXIT\n"
    script = begin + f"\necho '{MARK}'\n".join(each.command for each in chosen)
    (folder / "script").write_text(script)
    with (folder / "printed").open("w") as printed:
        shell = subprocess.Popen(
            ["bash", "script"],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": str(folder), **(variables or {})},
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = shell.wait(SECONDS_MAX)
        finally:
            # Kill the whole session in every case, so that no process outlives the test.
            with suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)
    outputs = (folder / "printed").read_text().split(f"{MARK}\n")
    reached = chosen[min(len(outputs), len(chosen)) - 1]
    assert status == 0, f"{reached.page}\n{reached.command}\n{outputs[-1]}"
    return list(zip(chosen, outputs, strict=True))
