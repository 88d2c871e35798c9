"""Run the commands of the README and the guides as printed, and check links, settings and command tables."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from actors.settings import Settings
from ops.cli import app
from tests.support.integration.snippets import SECONDS_MAX, Snippet, paste, snippets
from tests.support.integration.stack import Stack
from tests.support.ops.pages import spans

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
SETTINGS = (ROOT / "ops/docs/SETTINGS.md").read_text("utf-8")
COMMANDS = (ROOT / "ops/docs/COMMANDS.md").read_text("utf-8")
WORDS_MAX = 1_500
"""A newcomer finishes the README."""
GUIDES = ROOT / "ops/docs/guides"
ORDER = (
    "first-spend",
    "python",
    "README",
    "cards",
    "headroom",
    "records",
    "backtests",
    "accounts",
    "rules",
    "webhooks",
    "stand-in",
    "test-scenarios",
    "operating",
    "scaling",
)
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\.venv/bin/)?stanchion (.*)$", re.MULTILINE)
SOURCE = re.compile(r"(?:actors|api|engine|loadtests|ops|tests)/[\w./-]+")
PAGES = [ROOT / "README.md", *sorted((ROOT / "ops/docs").rglob("*.md"))]


def section(title: str) -> str:
    """A section of the README."""
    assert f"\n## {title}\n" in README
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def all_snippets() -> list[Snippet]:
    """All snippets to run, in reading order."""
    chosen = [*snippets("First spend", section("First spend"))]
    for name in ORDER:
        chosen += snippets(name, (GUIDES / f"{name}.md").read_text("utf-8"))
    return chosen


@pytest.mark.timeout(SECONDS_MAX + 60)
def test_commands_print_the_documented_output(stack: Stack, tmp_path: Path) -> None:
    assert {path.stem for path in GUIDES.glob("*.md")} == set(ORDER)
    chosen = all_snippets()
    assert sum(len(each.shown) for each in chosen) > 120
    for snippet, printed in paste(chosen, stack.installation.var_dir, tmp_path):
        assert not snippet.missing_in(printed), f"{snippet.page}\n{snippet.command}\n{printed}"
        if "stanchion audit" in snippet.command:
            assert re.fullmatch(r"All \d+ promises hold\.\n", printed)


def test_missing_output_is_detected() -> None:
    snippet = Snippet("page", "true", ("one", "t…o", "three"))
    assert snippet.missing_in(" one\ntwo\nand more\nthree\n") == []
    assert snippet.missing_in("two\none\nthree") == ["t…o", "three"]
    assert snippet.missing_in("one\ntwo\nthree too") == ["three"]


def test_readme_is_short_and_shows_its_pictures() -> None:
    assert len(README.split()) <= WORDS_MAX
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', README)
    assert len(pictures) == 2
    assert [path for path in pictures if not (ROOT / path).is_file()] == []


def test_every_setting_is_in_the_table() -> None:
    rows = [line for line in SETTINGS.splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"STANCHION_[A-Z0-9_]+", row.split("|")[1])}
    assert named == {f"STANCHION_{name.upper()}" for name in Settings.__struct_fields__}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_has_a_target(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        if anchor:
            titles = re.findall(r"^#+ (.+)$", found.read_text("utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}, (
                target
            )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_of_the_sources_exists(page: Path) -> None:
    named = [span for span in spans(page.relative_to(ROOT).as_posix()) if SOURCE.fullmatch(span)]
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_commands_in_fences_parse() -> None:
    """Commands that no test runs, because they keep running or stop the installation, must at least parse."""
    known = typer.main.get_command(app)
    shown = [fence for page in PAGES for fence in FENCE.findall(page.read_text("utf-8"))]
    commands = [line for fence in shown for line in COMMAND.findall(fence.replace("\\\n", " "))]
    assert len(commands) > 5
    for line in commands:
        alone = re.split(r" [|&>]", re.sub(r"\$\([^)]*\)", "x", line), maxsplit=1)[0]
        parse(known, shlex.split(alone, comments=True))


def test_every_command_is_in_the_table() -> None:
    table = COMMANDS.partition("has these commands")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`([^`]+)`", row)} == names(
        typer.main.get_command(app)
    )


def names(command: object, path: tuple[str, ...] = ()) -> set[str]:
    """The full names of all subcommands of ``command``."""
    group = getattr(command, "commands", None)
    if group is None:
        return {" ".join(path)}
    return {name for each, inner in group.items() for name in names(inner, (*path, each))}


def parse(command: object, arguments: list[str]) -> None:
    """Parse ``arguments`` for ``command`` without running it; fail if they are not valid."""
    group = getattr(command, "commands", None)
    if group is not None:
        assert arguments[0] in group, arguments
        return parse(group[arguments[0]], arguments[1:])
    command.make_context("stanchion", arguments)  # type: ignore[attr-defined]
    return None
