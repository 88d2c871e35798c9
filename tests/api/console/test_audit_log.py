"""The console's audit log: filters, changes, links and pages."""

from __future__ import annotations

import re

import pytest

from tests.support.api.console.visitor import visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


def acts(page: str) -> list[str]:
    """The acts on the page."""
    return re.findall(r'class="what"><strong>([^<]+)<', page)


async def test_acts_are_shown_with_their_changes_and_objects(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    await acme.patch(f"/v1/cards/{card['id']}", {"state": "suspended"})
    async with visitor(running, acme) as browser:
        page = (await browser.get("/audit-log", object_id=card["id"])).text
        assert acts(page) == ["update card", "create card"]
        assert "<td>state</td><td>active</td><td>suspended</td>" in page
        assert f'href="/console/cards/{card["id"]}"' in page
        assert acts((await browser.get("/audit-log", act="update_card")).text) == ["update card"]
        assert acts((await browser.get("/audit-log", actor="nobody")).text) == []
        assert acts((await browser.get("/audit-log", act="no_such_act")).text)
        assert acts((await browser.get("/audit-log", **{"from": "2099-01-01T00:00"})).text) == []
        narrow = await browser.get("/audit-log", **{"from": "2000-01-01T00:00", "to": "2099-01-01T00:00"})
        assert "update card" in acts(narrow.text)
        refused = await browser.get("/audit-log", 400, object_id="ä" * 200)
        assert "<h1>" in refused.text


async def test_acts_are_paged_back_and_forward(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.console.view.PAGE_ROWS", 2)
    programme = await acme.programme()
    for name in ("A", "B", "C", "D"):
        await acme.patch(f"/v1/programs/{programme['id']}", {"name": name})
    async with visitor(running, acme) as browser:
        pages, query = [], f"?object_id={programme['id']}"
        while query:
            pages.append(page := (await browser.http.get(f"/console/audit-log{query}")).text)
            older = re.search(r'rel="next" href="([^"]+)"', page)
            query = older[1].replace("&amp;", "&") if older else ""
        assert [len(acts(page)) for page in pages] == [2, 2, 1]
        newer = re.search(r'rel="prev" href="([^"]+)"', pages[2])
        assert newer is not None
        back = await browser.http.get(f"/console/audit-log{newer[1].replace('&amp;', '&')}")
        ids = re.compile(r'id="a-([^"]+)"')
        assert ids.findall(back.text) == ids.findall(pages[1])


async def test_audit_log_is_for_admins(running: Installation, acme: Caller) -> None:
    await acme.programme()
    user = await running.caller(acme.credentials.name, role="user")
    async with visitor(running, user) as browser:
        assert acts((await browser.get("/audit-log", 403)).text) == []
