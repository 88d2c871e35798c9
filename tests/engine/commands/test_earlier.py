"""Commands in the form of release 0.1.0."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest

from engine.commands import Authorize, as_earlier
from tests.support.engine.build import authorize, load

FIRST_RELEASE = {
    "cvv2": {"absent", "match", "mismatch"},
    "authentication": {"absent", "valid", "invalid"},
}
"""The values that hosts of 0.1.0 decode."""


@pytest.mark.parametrize("field", FIRST_RELEASE)
def test_earlier_form_has_only_values_of_the_first_release(field: str) -> None:
    values = set(get_args(get_type_hints(Authorize)[field]))
    assert values > FIRST_RELEASE[field]
    for value in values:
        earlier = getattr(as_earlier(authorize(**{field: value})), field)
        assert earlier in FIRST_RELEASE[field]
        assert earlier == value or value not in FIRST_RELEASE[field]


@pytest.mark.parametrize("command", [authorize(), load(1)])
def test_earlier_form_of_other_commands_is_the_command(command: Authorize) -> None:
    assert as_earlier(command) == command
