"""Comparisons of secrets take constant time, so that their duration reveals nothing.

The test checks names, not durations: no variable called a secret, a signature or a code may be compared with
``==`` or looked up in a container. Such values go through ``hmac.compare_digest`` or are found by their keyed
hash.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = [
    path for room in ("engine", "actors", "api", "ops") for path in sorted((ROOT / room).rglob("*.py"))
]
SECRET = re.compile(r"(secret|signature|cvv2?|token|password|mac)$")
NAMED = re.compile(SECRET.pattern.removesuffix("$") + r"\b")
"""Finds a name in a source before that is parsed."""
HARMLESS = {
    # Outcomes of checks, or whether there is a value; never the value itself.
    ("actors/network/probe_delays.py", "cvv2"),
    ("engine/decision/rules.py", "cvv2"),
    ("engine/rules/attributes.py", "cvv2"),
    ("engine/iso8583/card_data.py", "mac"),
    ("engine/iso8583/translate.py", "cvv2"),
    # Two fields of one form, both typed by the user.
    ("api/console/sign_in.py", "password"),
    ("api/console/pages/account.py", "password"),
}


def compared(source: str) -> Iterator[str]:
    """Names of values compared for equality or membership."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Compare):
            continue
        if not any(isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops):
            continue
        sides = [node.left, *node.comparators]
        if any(isinstance(side, ast.Constant) and side.value is None for side in sides):
            continue
        for side in sides:
            if isinstance(side, ast.Name):
                yield side.id
            elif isinstance(side, ast.Attribute):
                yield side.attr


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("secret == given", True),
        ("given != client.secret", True),
        ("signature in signatures", True),
        ("hmac.compare_digest(secret, given)", False),
        ("state == 'active'", False),
    ],
)
def test_secret_names_are_recognised(source: str, found: bool) -> None:
    assert any(SECRET.search(name) for name in compared(source)) == found


def test_secrets_are_compared_in_constant_time() -> None:
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in SOURCES
        if NAMED.search(source := path.read_text())
        for name in compared(source)
        if SECRET.search(name)
    }
    assert found <= HARMLESS


def test_secret_inputs_use_compare_digest() -> None:
    """Code that receives secrets uses the right function."""
    users = {str(path.relative_to(ROOT)) for path in SOURCES if "compare_digest" in path.read_text()}
    assert {"api/access/oauth.py", "actors/network/card_secrets.py"} <= users
