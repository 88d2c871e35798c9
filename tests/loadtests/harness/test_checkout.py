"""Earlier commits: their names, their clones, and the Python that runs them."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from loadtests.harness.checkout import CheckoutError, check_out, find_commit

PACKAGES = ("ops", "ops/bench", "actors", "engine")
IDENTITY = ("-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
MAKEFILE = ".venv/.runtime:\n\tmkdir -p .venv/bin\n\tln -s $(PYTHON) .venv/bin/python\n"


def git(folder: Path, *arguments: str) -> str:
    """The output of git in ``folder``."""
    done = subprocess.run(
        ("git", "-C", str(folder), *IDENTITY, *arguments), check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder: Path, subject: str, files: dict[str, str] | None = None) -> None:
    """Commit everything in ``folder``, and ``files``."""
    for name, content in (files or {}).items():
        (folder / name).write_text(content)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "-m", subject)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the packages that a benchmark imports, and one commit."""
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "--quiet")
    for package in PACKAGES:
        (root / package).mkdir(parents=True, exist_ok=True)
        (root / package / "__init__.py").write_text("")
    (root / "ops/__main__.py").write_text("")
    (root / "ops/bench/inside.py").write_text("")
    commit(root, "first: begin", {"requirements.lock": "ray==1\n", "Makefile": MAKEFILE})
    return root


def test_commits_are_found_by_hash_and_by_tag(repository: Path) -> None:
    full = git(repository, "rev-parse", "HEAD")
    git(repository, "tag", "-m", "a release", "v1")
    by_hash, by_tag = find_commit(full[:9], repository), find_commit("v1", repository)
    assert by_hash == by_tag
    assert (by_hash.id, by_hash.subject) == (full, "first: begin")
    assert full.startswith(by_hash.name)


@pytest.mark.parametrize("given", ["0123abc", "no-such-tag", "--all", ""])
def test_an_unknown_commit_is_an_error(repository: Path, given: str) -> None:
    with pytest.raises(CheckoutError, match="this repository has no commit"):
        find_commit(given, repository)


def test_a_folder_without_git_is_an_error(repository: Path, tmp_path: Path) -> None:
    nested = repository / "unpacked"
    nested.mkdir()
    for folder in (tmp_path, nested):
        with pytest.raises(CheckoutError, match="is not a git checkout"):
            find_commit("HEAD", folder)


def test_a_commit_with_the_same_lock_file_runs_in_this_environment(repository: Path, tmp_path: Path) -> None:
    first = find_commit("HEAD", repository)
    commit(repository, "second: go on", {"ops/added.py": ""})
    said: list[str] = []
    checkout = check_out(first, tmp_path / "clone", said.append, repository)
    assert checkout.version.command[0] == sys.executable
    assert not (tmp_path / "clone/ops/added.py").exists(), "the clone has the earlier files"
    assert (checkout.own_packages, said) == (False, [])
    assert checkout.about.endswith("(first: begin), with the same packages")
    assert git(repository, "status", "--porcelain") == ""
    assert git(repository, "worktree", "list").count("\n") == 0, "the repository itself is unchanged"


def test_a_commit_with_another_lock_file_gets_its_own_environment(repository: Path, tmp_path: Path) -> None:
    first = find_commit("HEAD", repository)
    commit(repository, "lock: newer", {"requirements.lock": "ray==2\n"})
    said: list[str] = []
    checkout = check_out(first, tmp_path / "clone", said.append, repository)
    assert checkout.version.command[0] == str(tmp_path / "clone/.venv/bin/python")
    assert checkout.own_packages
    assert "pins other packages" in said[0]
    assert "own lock file" in checkout.about


def test_a_chosen_python_gets_an_environment(repository: Path, tmp_path: Path) -> None:
    said: list[str] = []
    head = find_commit("HEAD", repository)
    checkout = check_out(head, tmp_path / "clone", said.append, repository, python=sys.executable)
    version = f"{platform.python_implementation()} {platform.python_version()}"
    assert checkout.version.command[0] == str(tmp_path / "clone/.venv/bin/python")
    assert not checkout.own_packages
    assert said == [f"{head.name} runs on {version}: installing its packages beside it (a minute or two) ..."]
    assert checkout.about.endswith(f"with the same packages and {version}")


@pytest.mark.parametrize("given", ["/no/such/python", "/bin/false"])
def test_a_chosen_python_that_does_not_run_is_an_error(repository: Path, tmp_path: Path, given: str) -> None:
    head = find_commit("HEAD", repository)
    with pytest.raises(CheckoutError, match=given):
        check_out(head, tmp_path / "clone", lambda _text: None, repository, python=given)


def test_packages_that_cannot_be_installed_are_an_error(repository: Path, tmp_path: Path) -> None:
    commit(repository, "make: broken", {"Makefile": ".venv/.runtime:\n\t@echo no index >&2; exit 1\n"})
    broken = find_commit("HEAD", repository)
    commit(repository, "lock: newer", {"requirements.lock": "ray==2\n"})
    with pytest.raises(CheckoutError, match="its packages could not be installed: "):
        check_out(broken, tmp_path / "clone", lambda _text: None, repository)


def test_a_commit_without_an_installation_is_an_error(repository: Path, tmp_path: Path) -> None:
    (repository / "ops/__main__.py").unlink()
    commit(repository, "ops: none")
    with pytest.raises(CheckoutError, match=r"it has no ops/__main__\.py"):
        check_out(find_commit("HEAD", repository), tmp_path / "clone", lambda _text: None, repository)


def test_a_commit_whose_packages_fail_to_import_is_an_error(repository: Path, tmp_path: Path) -> None:
    commit(repository, "actors: broken", {"actors/__init__.py": "raise ImportError('no ray')\n"})
    with pytest.raises(CheckoutError, match="cannot be imported: ImportError: no ray"):
        check_out(find_commit("HEAD", repository), tmp_path / "clone", lambda _text: None, repository)
