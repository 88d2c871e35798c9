"""Every fence on a page has a test that runs it, or a stated reason for having none. Otherwise a test here
fails.

Commands, modules and make targets named in prose must exist and accept the named options. The tests listed
here read the fences from the pages themselves.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import typer.main

from actors.settings import PREFIX, Settings
from ops.cli import app
from tests.support.ops.pages import ROOT, Fence, fence, fences, pages, spans

GUIDES: Final = "tests/integration/test_readme.py::test_commands_print_the_documented_output"
HANDBOOK: Final = (
    "tests/integration/test_own_servers.py::test_handbook_commands_with_own_postgresql_and_redis"
)
DRILLS: Final = "tests/ops/chaos/environment/test_handbook.py::test_drills_use_every_command_of_the_page"
SNIPPETS: Final = "tests/ops/test_snippets.py"
PROSE: Final = "prose"
"""Text without a runnable or checkable statement."""


@dataclass(frozen=True)
class Answer:
    """The test that covers the fences of a page's ``section`` (empty: of all) in a language. ``number``: how
    many there are; absent if the test takes all that it finds."""

    page: str
    section: str
    languages: str
    test: str
    number: int | None = 1

    def covers(self, each: Fence) -> bool:
        """Whether it covers that fence."""
        here = self.page == each.page and self.section in ("", each.section)
        return here and each.language in self.languages.split(" ")


ANSWERS: Final = (
    *(
        Answer(page, "", "bash python json text", GUIDES, None)
        for page in pages()
        if page.startswith("ops/docs/guides/")
    ),
    Answer("README.md", "Stanchion", "mermaid", PROSE),
    Answer("README.md", "First spend", "bash python text", GUIDES, None),
    Answer(
        "ops/docs/FEATURES.md",
        "Webhooks",
        "sh",
        "tests/integration/test_listen.py::test_listen_and_resend_as_documented",
    ),
    Answer("ops/docs/FEATURES.md", "Delegated decisions", "sh", f"{__name__}::test_a_guide_runs_it_too"),
    Answer("ops/docs/SETTINGS.md", "Settings", "sh", HANDBOOK),
    Answer("ops/docs/OBSERVING.md", "Traces", "sh", f"{__name__}::test_traces_are_switched_on_as_printed"),
    Answer(
        "ops/docs/COMMANDS.md",
        "Archives",
        "sh",
        "tests/ops/commands/test_archive.py::test_commands_of_the_page",
    ),
    *(
        Answer("ops/docs/ARCHITECTURE.md", section, "mermaid", PROSE)
        for section in (
            "Architecture",
            "The path of one authorization",
            "From a committed event to its delivery",
        )
    ),
    Answer("ops/docs/ARCHITECTURE.md", "Layout", "", PROSE),
    Answer(
        "api/client/README.md",
        "stanchion-client",
        "python",
        "tests/api/client/test_readme.py::test_example_of_the_page_spends_to_the_decision",
    ),
    Answer(
        "ops/docs/AUTHORIZATION.md",
        "",
        "mermaid",
        "tests/ops/test_state_diagrams.py::test_page_is_up_to_date",
        2,
    ),
    Answer("ops/docs/CLUSTER.md", "Setting one up", "sh", DRILLS),
    Answer("ops/docs/CLUSTER.md", "Nodes that come and go", "sh", DRILLS),
    Answer(
        "ops/docs/CLUSTER.md",
        "Kubernetes",
        "sh",
        "tests/ops/test_deploy.py::test_the_page_deploys_this_chart",
    ),
    Answer(
        "ops/docs/CLUSTER.md",
        "Tests and validation",
        "sh",
        "tests/ops/test_deploy.py::test_the_page_installs_the_validators",
    ),
    Answer(
        "ops/docs/CURRENCIES.md",
        "Trying it",
        "bash",
        f"{SNIPPETS}::test_converted_spend_of_the_page_is_approved",
    ),
    Answer(
        "ops/docs/GATEWAY.md",
        "Switch it on",
        "bash",
        f"{SNIPPETS}::test_gateway_programme_of_the_page_is_created",
    ),
    Answer(
        "ops/docs/GATEWAY.md",
        "Posting instructions",
        "python",
        "tests/engine/authorization/test_instructions.py::test_ledger_of_the_page_agrees_in_any_delivery_order",
    ),
    *(
        Answer(
            "ops/docs/LINKS.md",
            "From a certificate to the first approved message",
            language,
            "tests/integration/test_links.py::test_commands_of_the_page_lead_to_an_approved_message",
            None,
        )
        for language in ("sh", "toml", "python", "text")
    ),
    Answer(
        "ops/docs/ACCESS.md",
        "Managing clients",
        "sh",
        "tests/ops/test_cli.py::test_printed_commands_manage_clients_and_are_on_record",
    ),
    Answer(
        "ops/docs/CONSOLE.md",
        "Signing in",
        "sh",
        "tests/ops/test_cli.py::test_printed_command_invites_the_first_owner_of_a_tenant",
    ),
    Answer(
        "ops/docs/CONSOLE.md",
        "OpenID Connect",
        "sh",
        "tests/api/console/test_openid.py::test_settings_of_the_page_are_accepted",
    ),
    Answer("ops/docs/CONSOLE.md", "Behind a proxy", "nginx", PROSE),
    Answer("ops/docs/OPERATING.md", "Your own PostgreSQL", "sql", PROSE),
    Answer("ops/docs/OPERATING.md", "Backup and restore", "sh", HANDBOOK, 2),
    Answer("ops/docs/OPERATING.md", "Rolling restart", "sh", HANDBOOK),
    Answer("ops/docs/OPERATING.md", "Keys", "sh", HANDBOOK, 2),
    Answer("ops/docs/OPERATING.md", "Keys", "text", HANDBOOK),
    Answer("ops/docs/STAND_IN.md", "On one machine", "sh", f"{__name__}::test_a_guide_runs_it_too"),
    Answer("ops/docs/STAND_IN.md", "The question", "json", f"{SNIPPETS}::test_question_of_the_page_is_sent"),
    Answer("ops/docs/STAND_IN.md", "The answer", "json", f"{SNIPPETS}::test_answer_of_the_page_is_usable"),
    Answer(
        "ops/docs/STAND_IN.md",
        "The policy",
        "json",
        "tests/api/stand_in/test_policy.py::test_example_in_the_guide_is_a_valid_policy",
    ),
    *(
        Answer(
            "ops/docs/WEBHOOKS.md",
            section,
            "bash",
            "tests/api/docs/test_webhooks_page.py::test_printed_shell_commands_work",
        )
        for section in ("Subscribe", "Verify")
    ),
    Answer("ops/docs/WEBHOOKS.md", "What arrives", "json", f"{SNIPPETS}::test_delivery_of_the_page_is_sent"),
    Answer(
        "ops/docs/WEBHOOKS.md",
        "Verify",
        "python",
        "tests/api/docs/test_webhooks_page.py::test_printed_verifier_accepts_genuine_signatures_only",
    ),
    *(
        Answer(
            "ops/docs/WEBHOOKS.md",
            section,
            "sh",
            "tests/integration/test_listen.py::test_listen_and_resend_as_documented",
        )
        for section in ("Send again", "On your own machine")
    ),
    *(
        Answer("ops/docs/WIRE.md", section, language, f"tests/conformance/test_written_profile.py::{test}")
        for section, language, test in (
            ("Writing a profile", "text", "test_printed_error_is_that_of_a_wrong_place"),
            ("Writing a profile", "toml", "test_printed_request_gets_the_printed_answer"),
            ("A request of the example", "text", "test_printed_request_gets_the_printed_answer"),
            ("Its answer", "text", "test_printed_request_gets_the_printed_answer"),
        )
    ),
)

_STANCHION: Final = re.compile(r"(?:\.venv/bin/)?stanchion ([a-z].*)")
_MODULE: Final = re.compile(r"(?:\.venv/bin/)?python -m ([\w.]+)")
_MAKE: Final = re.compile(r"make ([a-z]+)\b")
NAMED: Final = [(page, span) for page in pages() for span in spans(page)]
"""Every page with the text between its backquotes."""
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.mark.parametrize("page", pages())
def test_every_fence_has_a_test_or_a_reason(page: str) -> None:
    for each in fences(page):
        answers = [answer for answer in ANSWERS if answer.covers(each)]
        assert len(answers) == 1, f"{page}, {each.section}: {each.language}\n{each.text}"


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer.page} {answer.section}")
def test_every_entry_names_an_existing_fence_and_test(answer: Answer) -> None:
    number = sum(answer.covers(each) for each in fences(answer.page))
    if answer.number is not None:
        assert number == answer.number
    if answer.test == PROSE:
        return
    path, _, name = answer.test.rpartition("::")
    source = (ROOT / (path if path.endswith(".py") else f"{path.replace('.', '/')}.py")).read_text("utf-8")
    tests = {node.name for node in ast.walk(ast.parse(source)) if isinstance(node, FUNCTIONS)}
    assert name in tests
    # The test reads the page: a copied snippet would not follow its changes.
    assert answer.page.rpartition("/")[2] in source or "ops/docs/guides" in source


@pytest.mark.parametrize(
    ("page", "section"),
    [("ops/docs/FEATURES.md", "Delegated decisions"), ("ops/docs/STAND_IN.md", "On one machine")],
)
def test_a_guide_runs_it_too(page: str, section: str) -> None:
    """There, commands that run until Ctrl-C are pasted into the background."""
    run = [each.text for each in fences("ops/docs/guides/stand-in.md") if each.language == "bash"]
    command = fence(page, section, "sh").strip()
    assert any(
        re.match(rf"{re.escape(command)} > \S+ &$", line) for text in run for line in text.splitlines()
    )


def test_traces_are_switched_on_as_printed() -> None:
    """The extra of OBSERVING.md exists, and the setting is one."""
    install, start = fence("ops/docs/OBSERVING.md", "Traces", "sh").splitlines()
    name, _, extra = shlex.split(install)[-1].removesuffix("]").partition("[")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (name, list(project["optional-dependencies"])) == (project["name"], [extra])
    assignment, *command = shlex.split(start)
    assert command == ["stanchion", "up"]
    variable, _, value = assignment.partition("=")
    assert Settings.load(**{variable.removeprefix(PREFIX).lower(): value}).otlp_endpoint == value


def spoken(pattern: re.Pattern[str]) -> list[tuple[str, str]]:
    """Pages, and the rest of each backquoted text that starts with the pattern's words."""
    found = [(page, pattern.match(span)) for page, span in NAMED]
    return sorted({(page, match[1]) for page, match in found if match})


def test_commands_between_backquotes_accept_their_options() -> None:
    named = [(page, rest) for page, rest in spoken(_STANCHION) if "." not in rest.split("(")[0]]
    assert len(named) > 20
    # Typer makes the parameters of all commands anew at each call, which takes a tenth of a second.
    stanchion = typer.main.get_command(app)
    for page, rest in named:
        words = shlex.split(re.sub(r"[\[\]]", "", rest))
        command = stanchion
        while words and (group := getattr(command, "commands", None)):
            assert words[0] in group, f"{page}: {rest}"
            command = group[words.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("-")} <= known, f"{page}: {rest}"


def test_modules_between_backquotes_can_be_run() -> None:
    named = spoken(_MODULE)
    assert len(named) > 5
    for page, module in named:
        spec = importlib.util.find_spec(module)
        assert spec is not None, f"{page}: {module}"
        runnable = importlib.util.find_spec(f"{module}.__main__") if spec.submodule_search_locations else spec
        assert runnable is not None, f"{page}: {module}"
        assert '__name__ == "__main__"' in source_of(runnable.origin), f"{page}: {module}"


def source_of(origin: str | None) -> str:
    assert origin is not None
    return Path(origin).read_text("utf-8")


def test_targets_between_backquotes_are_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = spoken(_MAKE)
    assert len(named) > 10
    assert {target for _, target in named} <= targets
