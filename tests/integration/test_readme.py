"""The README's first spend and all guides, pasted into a shell as newcomers do; what else pages promise."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from actors.settings import Settings
from ops.cli import app
from tests.integration.snippets import SECONDS_MAX, Snippet, paste, snippets
from tests.integration.stack import Stack

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
GUIDES = ROOT / "ops/docs/guides"
ORDER = ("README", "cards", "webhooks", "stand-in", "test-scenarios", "operating", "scaling")
FENCE = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^(?:\.venv/bin/)?stanchion (.*)$", re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted((ROOT / "ops/docs").rglob("*.md"))]


def section(title: str) -> str:
    """A section of the README."""
    assert f"\n## {title}\n" in README
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def everything() -> list[Snippet]:
    """All that is to be pasted, in the order in which pages lead to each other."""
    told = [*snippets("First spend", section("First spend"))]
    told += snippets("From Python", section("From Python"))
    for name in ORDER:
        told += snippets(name, (GUIDES / f"{name}.md").read_text("utf-8"))
    return told


@pytest.mark.timeout(SECONDS_MAX + 60)
def test_everything_goes_as_printed(stack: Stack, tmp_path: Path) -> None:
    assert {path.stem for path in GUIDES.glob("*.md")} == set(ORDER)
    told = everything()
    assert sum(len(each.shown) for each in told) > 120
    for snippet, printed in paste(told, stack.installation.var_dir, tmp_path):
        assert not snippet.missing_in(printed), f"{snippet.page}\n{snippet.command}\n{printed}"
        if "stanchion audit" in snippet.command:
            assert re.fullmatch(r"All \d+ promises hold\.\n", printed)


def test_a_line_that_is_not_printed_is_missed() -> None:
    snippet = Snippet("page", "true", ("one", "t…o", "three"))
    assert snippet.missing_in(" one\ntwo\nand more\nthree\n") == []
    assert snippet.missing_in("two\none\nthree") == ["t…o", "three"]
    assert snippet.missing_in("one\ntwo\nthree too") == ["three"]


def test_every_setting_is_in_the_table() -> None:
    table = README.partition("\n## Settings\n")[2]
    named = set(re.findall(r"STANCHION_[A-Z0-9_]+", table))
    assert named == {f"STANCHION_{name.upper()}" for name in Settings.model_fields}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
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


def test_commands_that_are_only_named_exist() -> None:
    """What is shown and not pasted, because it stays or because it stops everything, is still a command."""
    known = typer.main.get_command(app)
    shown = [fence for page in PAGES for fence in FENCE.findall(page.read_text("utf-8"))]
    spoken = [line for fence in shown for line in COMMAND.findall(fence.replace("\\\n", " "))]
    assert len(spoken) > 5
    for line in spoken:
        alone = re.split(r" [|&>]", re.sub(r"\$\([^)]*\)", "x", line), maxsplit=1)[0]
        parse(known, shlex.split(alone, comments=True))


def test_every_command_is_in_the_table() -> None:
    table = README.partition("has these commands")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`([^`]+)`", row)} == names(
        typer.main.get_command(app)
    )


def names(command: object, path: tuple[str, ...] = ()) -> set[str]:
    """All commands below ``command``, as they are typed."""
    group = getattr(command, "commands", None)
    if group is None:
        return {" ".join(path)}
    return {name for each, inner in group.items() for name in names(inner, (*path, each))}


def parse(command: object, arguments: list[str]) -> None:
    """Fail unless ``arguments`` are what ``command`` takes; nothing is run."""
    group = getattr(command, "commands", None)
    if group is not None:
        assert arguments[0] in group, arguments
        return parse(group[arguments[0]], arguments[1:])
    command.make_context("stanchion", arguments)  # type: ignore[attr-defined]
    return None
