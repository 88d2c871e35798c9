"""An earlier commit of this repository in a temporary clone, and the Python that runs it.

The running environment also runs the earlier commit, with the clone's packages before its own, unless the
commit pins other packages or another Python was chosen: then the commit's own Makefile makes an environment
in the clone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from loadtests.harness.children import Version, inherited

ROOT: Final = Path(__file__).parents[2]
LOCK: Final = "requirements.lock"
PACKAGE_FOLDERS: Final = (".", "api/client")
"""Where the repository's packages are imported from."""
MAKE_TARGET: Final = ".venv/.runtime"
_FORMAT: Final = "%H%x00%h%x00%cs%x00%s"


class CheckoutError(Exception):
    """The commit cannot be used. The message is one line."""


class Commit(msgspec.Struct, frozen=True):
    """One commit: its full and its short id, its day, and its subject."""

    id: str
    name: str
    day: str
    subject: str


class Checkout(msgspec.Struct, frozen=True):
    """A commit that can run."""

    commit: Commit
    version: Version
    own_packages: bool
    """Whether it pins other packages, and therefore has an environment of its own."""
    python: str | None = None
    """Name and version of its Python, if one was chosen for it."""

    @property
    def about(self) -> str:
        """One line for reports."""
        packages = "the packages that its own lock file pins" if self.own_packages else "the same packages"
        python = "" if self.python is None else f" and {self.python}"
        return f"{self.commit.name} of {self.commit.day} ({self.commit.subject}), with {packages}{python}"


def find_commit(given: str, root: Path = ROOT) -> Commit:
    """The commit that ``given`` names: a hash, a tag, a branch. Raises CheckoutError."""
    top = _git(root, "rev-parse", "--show-toplevel").stdout.strip()
    if not top or Path(top).resolve() != root.resolve():
        raise CheckoutError(f"{root} is not a git checkout, so there is no earlier commit to compare with")
    # An option is no commit, and a tag means the commit behind it.
    found = _git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{given}^{{commit}}")
    if found.returncode != 0:
        raise CheckoutError(f"this repository has no commit {given!r}")
    shown = _git(root, "show", "--no-patch", f"--format={_FORMAT}", found.stdout.strip())
    return Commit(*shown.stdout.rstrip("\n").split("\0"))


def check_out(
    commit: Commit,
    folder: Path,
    say: Callable[[str], None],
    root: Path = ROOT,
    *,
    python: str | None = None,
) -> Checkout:
    """Clone ``commit`` into ``folder`` and prepare its Python; ``say`` announces a step that takes minutes.
    ``python``: the interpreter of an environment for the commit; that of this process if ``None``. Raises
    CheckoutError."""
    # A shared clone copies no objects and changes nothing in the repository.
    _must(_git(root, "clone", "--quiet", "--shared", "--no-checkout", str(root), str(folder)))
    _must(_git(folder, "checkout", "--quiet", "--detach", commit.id))
    for needed in (LOCK, "ops/__main__.py", "ops/bench/inside.py"):
        if not (folder / needed).is_file():
            raise CheckoutError(f"{commit.name} cannot be measured: it has no {needed}")
    own = (folder / LOCK).read_bytes() != (root / LOCK).read_bytes()
    chosen = None if python is None else _name_of(python)
    executable = sys.executable
    if own or chosen is not None:
        reason = "pins other packages" if own else f"runs on {chosen}"
        say(f"{commit.name} {reason}: installing its packages beside it (a minute or two) ...")
        executable = _make_environment(folder, python or sys.executable)
    path = os.pathsep.join(str(folder / each) for each in PACKAGE_FOLDERS)
    # With -P, only PYTHONPATH comes before the environment's packages.
    version = Version((executable, "-P", "-m"), folder, {"PYTHONPATH": path})
    _check_imports(commit, version)
    return Checkout(commit, version, own, chosen)


def _name_of(python: str) -> str:
    """Name and version of an interpreter. Raises CheckoutError."""
    program = "import platform as p; print(p.python_implementation(), p.python_version())"
    try:
        done = subprocess.run((python, "-c", program), capture_output=True, text=True, check=False)
    except OSError:
        raise CheckoutError(f"{python} cannot be run") from None
    if done.returncode != 0:
        raise CheckoutError(f"{python} is not a Python: {_last_line(done)}")
    return done.stdout.strip()


def _make_environment(folder: Path, python: str) -> str:
    """Let the commit's own Makefile install its pinned packages for ``python``; returns the environment's
    Python."""
    # A surrounding make must not pass its options on.
    environment = {name: value for name, value in inherited().items() if not name.startswith("MAKE")}
    command = ("make", "--directory", str(folder), f"PYTHON={python}", MAKE_TARGET)
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise CheckoutError("make is needed to install the packages of another commit") from None
    if done.returncode != 0:
        raise CheckoutError(f"its packages could not be installed: {_last_line(done)}")
    return str(folder / ".venv/bin/python")


def _check_imports(commit: Commit, version: Version) -> None:
    """Compare nothing with itself: the packages must come from the clone."""
    assert version.folder is not None, "a clone has a folder"
    command = (*version.command[:-1], "-c", "import ops, actors, engine; print(ops.__file__)")
    environment = inherited() | version.environment
    done = subprocess.run(
        command, cwd=version.folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0 or not Path(done.stdout.strip()).is_relative_to(version.folder):
        raise CheckoutError(f"the packages of {commit.name} cannot be imported: {_last_line(done)}")


def _git(where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # A git hook's variables would name another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        return subprocess.run(
            ("git", "-C", str(where), *arguments),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        raise CheckoutError("git is needed to compare with another commit") from None


def _must(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode != 0:
        raise CheckoutError(f"git failed: {_last_line(done)}")


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
