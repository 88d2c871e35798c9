"""The layout: import directions, a pure engine, mirrored tests, lock files without addresses."""

from __future__ import annotations

import ast
import re
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).parents[1]
LOCKS = sorted(ROOT.glob("requirements*.lock"))

TESTS = ROOT / "tests"

WITHOUT_SOURCE = {"integration", "conformance", "support"}
"""Folders of tests that run a whole installation, and of support code."""
SOURCE_OF = {"api/client": "api/client/stanchion"}
"""Source folders that have another path than their tests."""
NAMED_BY_SUBJECT = {
    "actors/cluster/test_reserve_hosts.py": "coordinator, ownership and placement together",
    "actors/journal/*": "one suite for both implementations of the journal",
    "actors/network/*crashes.py": "the whole simulated network, stopped at every step",
    "actors/shards/*": "one behaviour of a shard host, which several of its modules share",
    "actors/webhooks/test_schedule.py": "dispatcher, schedule and endpoint slots together",
    "actors/test_coalescer.py": "the second class of actors/batcher.py",
    "actors/webhooks/test_pipeline.py": "an event's way through relay and dispatcher",
    "api/*": "one resource or property of the API, with its routes, permissions and problems",
    "engine/authorization/test_modes.py": "managed and gateway mode compared",
    "engine/authorization/test_random_lives.py": "random lives of authorizations, through all modules",
    "engine/execution/test_card_commands.py": "commands on cards, through execute and issuing",
    "engine/test_*.py": "several packages of the engine together",
    "ops/supervision/test_imports.py": "what the supervisor imports before it starts servers",
    "ops/test_fences.py": "the documents",
    "ops/test_snippets.py": "the documents",
}
"""Test files that are named by their subject instead of a module, and why."""

# The engine may use, beside the standard library: data structures and tables.
ENGINE_MAY_IMPORT = {"engine", "msgspec", "iso3166", "iso4217"}


def imported(path: Path) -> set[str]:
    """Top-level names of all imports of the module at ``path``."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def test_import_contracts_hold(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    status = lint_imports(config_filename="pyproject.toml", no_cache=True)
    assert status == EXIT_STATUS_SUCCESS, capsys.readouterr().out


@pytest.mark.parametrize(
    "path", sorted((ROOT / "engine").rglob("*.py")), ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_the_engine_imports_no_other_package(path: Path) -> None:
    outside = imported(path) - set(sys.stdlib_module_names) - ENGINE_MAY_IMPORT
    assert not outside
    assert not [
        node
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.AsyncFunctionDef)
    ]


@pytest.mark.parametrize(
    "path", sorted(TESTS.rglob("test_*.py")), ids=lambda path: path.relative_to(TESTS).as_posix()
)
def test_tests_mirror_the_sources(path: Path) -> None:
    """A test's folder is its source's; its name is that of a module, a package, or the folder itself."""
    name, folder = path.relative_to(TESTS).as_posix(), path.parent.relative_to(TESTS)
    if not folder.parts or folder.parts[0] in WITHOUT_SOURCE:
        return
    source = ROOT / SOURCE_OF.get(folder.as_posix(), folder.as_posix())
    assert source.is_dir(), f"{folder} has tests but no sources"
    subject = path.stem.removeprefix("test_")
    mirrored = (source / f"{subject}.py").is_file() or (source / subject).is_dir() or source.name == subject
    assert mirrored or any(fnmatch(name, pattern) for pattern in NAMED_BY_SUBJECT), (
        f"{folder}/ has no {subject}.py: name the test by its module, or add it to NAMED_BY_SUBJECT"
    )


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_lock_files_pin_hashes_and_contain_no_address(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.search(r"https?:|file:|--(extra-)?index-url|--find-links", text)
    requirements = re.findall(r"^[a-z0-9][^\n]*(?:\\\n[^\n]*)+", text, re.MULTILINE)
    assert len(requirements) == len(re.findall(r"^[a-z0-9]", text, re.MULTILINE)) > 0
    assert all("==" in requirement and "--hash=sha256:" in requirement for requirement in requirements)
