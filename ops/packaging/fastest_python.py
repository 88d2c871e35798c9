"""Prints the Python interpreter for a new environment: the fastest one of this machine.

Builds of one version differ by a third: a shared library, or a build without profile-guided optimization,
makes every decision dearer (``pyenv`` builds both by default). ``make`` therefore takes another interpreter
than the one that runs this file if it is clearly faster. ``make PYTHON=/path/to/python3`` chooses without a
comparison.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

OLDEST = (3, 11)
NAMES = ("python3", "python3.14", "python3.13", "python3.12", "python3.11")
FOLDERS = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
CLEARLY = 0.9
"""A faster interpreter is taken if it needs at most this part of the time."""
ROUNDS = 4
PROBE_SECONDS_MAX = 20.0

# Calls, attributes, objects and dictionaries, as in a decision. Prints the version, the seconds, and the file
# of the interpreter: a candidate can be a script that starts it.
PROBE = """
import os, sys, time
class Row:
    def __init__(self, name, amount):
        self.name, self.amount = name, amount
    def total(self, other):
        return self.amount + other
def work():
    rows = {}
    for number in range(20000):
        row = Row(str(number), number)
        rows[row.name] = row.total(number)
    return rows
def timed():
    began = time.process_time()
    work()
    return time.process_time() - began
import pip, venv
seconds = min(timed() for _ in range(12))
print(sys.version_info[0], sys.version_info[1], seconds, os.path.realpath(sys.executable), sep="\\n")
"""


def candidates(path: str) -> list[str]:
    """Interpreters in the folders of ``path`` and in the usual ones; this one first."""
    folders = [*path.split(os.pathsep), *FOLDERS]
    found = [file for name in NAMES for folder in folders if (file := shutil.which(name, path=folder))]
    return list(dict.fromkeys([sys.executable, *found]))


def measured(interpreter: str) -> tuple[str, float] | None:
    """The file of the interpreter and the processor time of the probe; ``None`` if it is too old or cannot
    make environments."""
    try:
        printed = subprocess.run(
            [interpreter, "-c", PROBE],
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS_MAX,
            check=True,
        ).stdout
        major, minor, seconds, file = printed.splitlines()
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return (file, float(seconds)) if (int(major), int(minor)) >= OLDEST else None


def fastest(interpreters: list[str]) -> str:
    """The first one, unless another is clearly faster. All take turns, and the best time of each counts."""
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        found = dict(each for each in map(measured, interpreters) if each is not None)
        if len(found) < 2:
            return next(iter(found), interpreters[0])
        best = {file: min(seconds, best.get(file, seconds)) for file, seconds in found.items()}
        interpreters = list(best)
    first, quickest = next(iter(best)), min(best, key=best.__getitem__)
    return quickest if best[quickest] <= CLEARLY * best[first] else first


if __name__ == "__main__":
    chosen = fastest(candidates(os.environ.get("PATH", "")))
    if chosen != os.path.realpath(sys.executable):
        print(f"Using {chosen}, which is faster than {sys.executable}.", file=sys.stderr)
    print(chosen)
