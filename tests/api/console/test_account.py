"""A user's own page: zone, mode, password, one-time codes and sessions."""

from __future__ import annotations

import base64
import re

from tests.support.api.console.people import PASSWORD, code_of, person
from tests.support.api.console.visitor import HERE, visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

NEW = "a long new password"


async def test_zone_is_used_for_times_and_kept_for_later_sessions(running: Installation, tenant: str) -> None:
    who = await person(running, tenant)
    async with visitor(running, who) as browser:
        assert "There is no such zone" in (await browser.post("/account/zone", {"zone": "x"}, 400)).text
        answer = await browser.post("/account/zone", {"zone": "Asia/Kolkata"})
        page = (await browser.follow(answer)).text
        assert "Times are shown in the zone Asia/Kolkata." in page
        assert "Times are shown" not in (await browser.get("/account")).text
        shown = re.search(r'<time datetime="([^"]+)"[^>]*>([^<]+)</time>', page)
        assert shown is not None
        utc_minutes = int(shown[1][11:13]) * 60 + int(shown[1][14:16])
        local_minutes = int(shown[2][11:13]) * 60 + int(shown[2][14:16])
        assert (local_minutes - utc_minutes) % 1440 == 330
    async with visitor(running, who) as browser:
        assert '<option value="Asia/Kolkata" selected>' in (await browser.get("/account")).text


async def test_mode_switch_shows_the_objects_of_the_other_mode(running: Installation, tenant: str) -> None:
    who = await person(running, tenant)
    live_only = await person(running, tenant, modes=("live",))
    test_only = await person(running, tenant, modes=("test",))
    async with visitor(running, who) as browser:
        for mode, shown, hidden in (("live", live_only, test_only), ("test", test_only, live_only)):
            await browser.post("/account/mode", {"mode": mode})
            page = (await browser.get("/users")).text
            assert shown.email in page
            assert hidden.email not in page
        await browser.post("/account/mode", {"mode": "both"}, 404)
    async with visitor(running, live_only) as browser:
        assert "live mode" in (await browser.get("/account")).text
        await browser.post("/account/mode", {"mode": "test"}, 404)
    # A mode that is taken away ends the session in it.
    async with visitor(running, who) as browser:
        await running.services.pool.execute("UPDATE users SET modes = '{live}' WHERE id = $1", who.id)
        await browser.get("/account", 303)


async def test_changed_password_ends_the_other_sessions(running: Installation, tenant: str) -> None:
    who = await person(running, tenant)
    async with visitor(running, who) as browser, visitor(running, who) as other:
        for current, password, again, reason in (
            ("wrong", NEW, NEW, "current password is wrong"),
            (PASSWORD, "short", "short", "at least 12"),
            (PASSWORD, NEW, "another one", "differ"),
        ):
            fields = {"current": current, "password": password, "again": again}
            page = (await browser.post("/account/password", fields, 400)).text
            assert reason in page
            assert NEW not in page
        await other.get("/account")
        await browser.post("/account/password", {"current": PASSWORD, "password": NEW, "again": NEW})
        await browser.get("/account")
        await other.get("/account", 303)
        for password, status in ((PASSWORD, 401), (NEW, 303)):
            form = {"email": who.email, "password": password}
            assert (await other.http.post("/console/sign-in", data=form, headers=HERE)).status_code == status


async def test_one_time_codes_are_set_up_renewed_and_turned_off(running: Installation, tenant: str) -> None:
    who = await person(running, tenant)
    owner = await running.caller(tenant, role="owner")
    async with visitor(running, who) as browser:
        page = (await browser.get("/account/totp")).text
        assert 'src="data:image/svg+xml' in page
        text, sealed = (
            re.search(r"<code>([A-Z2-7]{32})</code>", page),
            re.search(r'"secret" value="(\w+)"', page),
        )
        assert text is not None
        assert sealed is not None
        secret = base64.b32decode(text[1])
        assert (
            "not accepted"
            in (await browser.post("/account/totp", {"secret": sealed[1], "code": "1"}, 400)).text
        )
        # The sealed secret belongs to this user.
        async with visitor(running, await person(running, tenant)) as other:
            answer = await other.post("/account/totp", {"secret": sealed[1], "code": code_of(secret)})
            assert answer.headers["location"] == "/console/account/totp"
        answer = await browser.post("/account/totp", {"secret": sealed[1], "code": code_of(secret)}, 200)
        codes = re.findall(r"<code>([a-z2-7-]{19})</code>", answer.text)
        assert len(codes) == 10
        assert "Recovery codes left: 10" in (await browser.get("/account")).text
        # A code works once, so acts take later ones, or recovery codes.
        await browser.post("/account/recovery-codes", {"code": code_of(secret)}, 400)
        answer = await browser.post("/account/recovery-codes", {"code": codes[0]}, 200)
        renewed = re.findall(r"<code>([a-z2-7-]{19})</code>", answer.text)
        assert not set(renewed) & set(codes)
        await browser.post("/account/totp/stop", {"code": codes[1]}, 400)
        await browser.post("/account/totp/stop", {"code": renewed[0]})
        assert "Set up one-time codes" in (await browser.get("/account")).text
    acts = [each["act"] for each in (await owner.get(f"/v1/audit-log?object_id={who.id}"))["data"]]
    assert acts == ["disable_totp", "renew_recovery_codes", "enable_totp", "sign_in"]


async def test_sessions_are_listed_and_ended(running: Installation, tenant: str) -> None:
    who, stranger = await person(running, tenant), await person(running, tenant)
    async with (
        visitor(running, who) as browser,
        visitor(running, who) as second,
        visitor(running, who) as third,
        visitor(running, stranger) as other,
    ):
        page = (await browser.get("/account")).text
        assert page.count('/end"') == 2
        assert "this session" in page
        assert "127.0.0.1" in page
        (ended, *_) = re.findall(r"/account/sessions/([0-9a-f-]{36})/end", page)
        await other.post(f"/account/sessions/{ended}/end", status=404)
        await other.post("/account/sessions/x/end", status=404)
        await browser.post(f"/account/sessions/{ended}/end")
        statuses = [(await each.http.get("/console/account")).status_code for each in (second, third)]
        assert sorted(statuses) == [200, 401]
        answer = await browser.post("/account/sessions/end-others")
        assert "have ended: 1." in (await browser.follow(answer)).text
        await other.get("/account")


async def test_client_has_no_password_and_no_modes_there(running: Installation, acme: Caller) -> None:
    async with visitor(running, acme) as browser:
        page = (await browser.get("/account")).text
        assert "An API client in test mode" in page
        assert "New password" not in page
        await browser.post("/account/zone", {"zone": "Europe/Berlin"})
        for path in ("mode", "password", "totp", "totp/stop", "recovery-codes", "sessions/end-others"):
            await browser.post(f"/account/{path}", {"mode": "live", "code": "1"}, 404)
        await browser.get("/account/totp", 404)
