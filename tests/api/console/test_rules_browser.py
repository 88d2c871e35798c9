"""The editors of rules and back-tests in a real browser, by keyboard, if Chromium is installed."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from tests.support.api.authorization_rules import RULES, rule_of
from tests.support.api.backtests import lead_next
from tests.support.api.console.pages import check_page, sign_in_as
from tests.support.api.console.people import person
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, served
from tests.support.api.vision.browser import MILLISECONDS_MAX, browser, chromium

expect.set_options(timeout=MILLISECONDS_MAX)


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def _no_open_backtests(running: Installation) -> Any:
    """Back-tests of other tests do not wait in this test's queue."""
    await running.services.pool.execute("DELETE FROM backtests")


async def press(button: Locator) -> None:
    """Press a button with the keyboard."""
    await button.focus()
    await button.press("Enter")


def row(page: Page, name: str) -> Locator:
    """The row of a condition or a control."""
    return page.locator(f'li:has(> fieldset > .condition-line [name="{name}.value"])')


async def fill_condition(page: Page, name: str, attribute: str, op: str, value: str) -> None:
    """Fill in the row of a condition."""
    await page.locator(f'[name="{name}.attribute"]').select_option(attribute)
    await page.locator(f'[name="{name}.op"]').select_option(op)
    await page.locator(f'[name="{name}.value"]').fill(value)


if chromium():

    @pytest.mark.timeout(300)
    async def test_rule_and_its_backtest_by_keyboard(
        running: Installation, acme: Caller, tenant: str
    ) -> None:
        card = await acme.funded_card("100.00")
        await acme.spend(card, "80.00", mcc="7995")
        await acme.spend(card, "50.00")
        async with served(running.app) as address, browser() as visit:
            page = visit.page
            await page.set_viewport_size({"width": 1280, "height": 900})
            await sign_in_as(page, address, await person(running, tenant))
            await page.goto(f"{address}/console" + "/rules")
            await press(page.get_by_role("link", name="New rule"))
            await page.get_by_label("Name").fill("No bets")
            await page.get_by_label("Reason").fill("no_bets")
            await page.get_by_label("Applies to").select_option(label="Everyday")
            # The script offers the operators of the attribute, and an example of its value.
            await page.locator('[name="when.0.attribute"]').select_option("mit")
            assert await page.locator('[name="when.0.op"]').input_value() == "eq"
            await expect(page.locator('[name="when.0.value"]')).to_have_attribute(
                "placeholder", "true or false"
            )
            await fill_condition(page, "when.0", "mcc", "in", "7995")
            await press(page.get_by_role("button", name="Add a condition", exact=True))
            # A new row has the focus, and what was typed stays.
            await expect(page.locator('[name="when.1.attribute"]')).to_be_focused()
            await expect(page.locator('[name="when.0.value"]')).to_have_value("7995")
            await expect(page.locator('[name="when.1.window"]')).to_be_hidden()
            await page.locator('[name="when.1.attribute"]').select_option("velocity")
            await page.locator('[name="when.1.window"]').fill("day")
            await page.locator('[name="when.1.op"]').select_option("gte")
            await page.locator('[name="when.1.value"]').fill("many")
            # Enter in a field saves; the problem is at its row.
            await page.locator('[name="when.1.value"]').press("Enter")
            await expect(row(page, "when.1").locator(".field-error")).to_be_visible()
            await check_page(page, "rule-editor")
            await page.locator('[name="when.1.value"]').fill("1")
            await press(page.get_by_role("button", name="Create the rule"))
            await expect(page.locator("h1")).to_have_text("No bets")
            await check_page(page, "rule")
            await press(page.get_by_role("button", name="Put in shadow"))
            await press(page.get_by_role("dialog").get_by_role("button", name="Put in shadow"))
            await expect(page.locator(".badge", has_text="shadow").first).to_be_visible()
            [rule] = (await acme.get(RULES))["data"]
            assert (rule["state"], rule["when"][1]["value"]) == ("shadow", 1)
            await press(page.get_by_role("link", name="Back-test", exact=True))
            await expect(page.locator('[name="change.add_rules.0.version"]')).to_have_value(f"{rule['id']}@1")
            await expect(page.locator('[name="change.add_rules.0.name"]')).to_be_hidden()
            await check_page(page, "backtest-editor")
            await press(page.get_by_role("button", name="Start the back-test"))
            await expect(page.get_by_text("Waiting for a free worker.")).to_be_visible()
            await check_page(page, "backtest-running")
            # The page shows the result by itself.
            await lead_next(running)
            await expect(page.get_by_text("now declined: 80.00 EUR")).to_be_visible()
            await check_page(page, "backtest-done")
            await press(page.get_by_role("link", name="Look at the flips"))
            await press(page.locator(".flip summary").first)
            await expect(page.locator(".flip[open] .differs").first).to_be_visible()
            await check_page(page, "flips")
            # The browser reports the status of the refused form.
            assert [each for each in visit.messages if "400 (Bad Request)" not in each] == []

    async def test_rule_is_edited_without_scripts(running: Installation, acme: Caller, tenant: str) -> None:
        card = await acme.funded_card("100.00")
        rule = await acme.post(RULES, rule_of("card", card["id"]))
        async with served(running.app) as address, browser() as visit:
            await visit.page.route("**/*.js*", lambda route: route.abort())
            page = visit.page
            await page.set_viewport_size({"width": 1280, "height": 900})
            await sign_in_as(page, address, await person(running, tenant))
            await page.goto(f"{address}/console" + f"/rules/{rule['id']}/edit")
            await press(page.get_by_role("button", name="Add a condition", exact=True))
            await page.locator('[name="when.1.attribute"]').select_option("velocity")
            await expect(page.locator('[name="when.1.window"]')).to_be_visible()
            await fill_condition(page, "when.1", "amount", "gt", "50.00")
            await page.locator('[name="when.1.value"]').press("Enter")
            await expect(page.get_by_text("Version 2 is saved.")).to_be_visible()
        changed = await acme.get(f"{RULES}/{rule['id']}")
        assert changed["when"][1] == {"attribute": "amount", "op": "gt", "value": "50.00"}
