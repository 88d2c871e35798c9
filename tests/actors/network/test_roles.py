"""The edge's role: each link gets what its entry and its profile say."""

from __future__ import annotations

from typing import Any

import pytest

from actors.network.roles import EdgeRole
from actors.roles import Context
from actors.settings import Settings
from engine.iso8583.card_data import Verification
from engine.iso8583.profiles import ISO87_ASCII, parse_profile
from tests.support.actors.network.links import entry_of

STRICT = 'name = "strict"\nbased_on = "iso87-ascii"\n[verification]\npin = "ignore"\nexpiry = "required"\n'


@pytest.mark.parametrize(
    ("profile", "policy"),
    [
        (ISO87_ASCII, Verification()),
        (parse_profile(STRICT, "strict.toml"), Verification(pin="ignore", expiry="required")),
    ],
    ids=["default", "strict"],
)
async def test_link_treats_card_data_as_its_profile_says(
    settings: Settings, profile: Any, policy: Verification
) -> None:
    role = EdgeRole(Context(settings, "edge", peers=None))  # type: ignore[arg-type]
    link = role._build(entry_of(profile=profile), None)
    assert link.respondent._verification == policy


@pytest.mark.parametrize(
    ("changes", "api"),
    [
        ({"api_host": "0.0.0.0", "api_port": 81}, ("127.0.0.1", 81)),
        ({"api_host": "10.0.0.7", "api_port": 82}, ("10.0.0.7", 82)),
    ],
)
async def test_health_port_asks_the_api_of_its_node(
    settings: Settings, changes: dict[str, Any], api: tuple[str, int]
) -> None:
    assert EdgeRole(Context(settings, "edge", peers=None))._health is None  # type: ignore[arg-type]
    changed = settings.replace(edge_health_port=8584, **changes)
    health = EdgeRole(Context(changed, "edge", peers=None))._health  # type: ignore[arg-type]
    assert health is not None
    assert health._api == api
