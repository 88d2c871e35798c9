"""Journals of many cards: the purchases of a card that is issued like another one."""

from __future__ import annotations

import json

import msgspec

from engine.commands import CreateProgramme
from engine.ids import key_of
from engine.programmes.programme import ProgrammeConfig
from engine.replay.programmes import ProgrammeVersions
from loadtests.generators.journals import Card, _like
from loadtests.generators.pure import CURRENCY, NOW_MS, new_id
from loadtests.relived import _issue


def test_purchases_are_approved_though_the_template_began_without_an_active_cardholder() -> None:
    tenant, programme = new_id(), new_id()
    config = ProgrammeConfig(id=programme, tenant_id=tenant, live=False, name="P", currency=CURRENCY)
    versions = ProgrammeVersions()
    create = CreateProgramme(
        id=programme, command_key=key_of(programme), config=config, decision_secret_sealed=b""
    )
    versions.add(programme, create, NOW_MS)
    template = msgspec.structs.replace(_issue(tenant, programme), cardholder_active=False)
    rows = list(Card(_like(template, 7), versions, NOW_MS, 1).rows(20))
    kinds = [row[5] for row in rows]
    codes = [json.loads(row[9])[0] for row in rows if row[5] == "authorize"]
    assert codes == ["00"] * 20
    assert kinds[:2] == ["create_card", "load"]
    assert kinds.count("present") > 10
