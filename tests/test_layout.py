"""The layout: import directions, a pure engine, mirrored tests, lock files without addresses."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports

ROOT = Path(__file__).parents[1]
LOCKS = sorted(ROOT.glob("requirements*.lock"))

# The engine may use, beside the standard library: data structures, tables and the reference codec of the
# wire.
ENGINE_MAY_IMPORT = {"engine", "msgspec", "iso8583", "iso3166"}


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


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_lock_files_pin_hashes_and_contain_no_address(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.search(r"https?:|file:|--(extra-)?index-url|--find-links", text)
    requirements = re.findall(r"^[a-z0-9][^\n]*(?:\\\n[^\n]*)+", text, re.MULTILINE)
    assert len(requirements) == len(re.findall(r"^[a-z0-9]", text, re.MULTILINE)) > 0
    assert all("==" in requirement and "--hash=sha256:" in requirement for requirement in requirements)
