"""The pages of webhooks, events, identity checks, clients, links and the audit log in a real browser: by
keyboard, on a phone and a screen, in light and dark."""

from __future__ import annotations

from playwright.async_api import Page, ViewportSize, expect

from tests.support.api.console.pages import check_page, sign_in_as
from tests.support.api.console.people import person
from tests.support.api.driver import Caller
from tests.support.api.kyc.applicants import BASIC, submit
from tests.support.api.stack import Installation, served
from tests.support.api.vision.browser import MILLISECONDS_MAX, browser, chromium

expect.set_options(timeout=MILLISECONDS_MAX)
DESK: ViewportSize = {"width": 1280, "height": 900}


async def press(page: Page, role: str, name: str) -> None:
    """Use a control by keyboard."""
    control = page.get_by_role(role, name=name, exact=True)  # type: ignore[arg-type]
    await control.focus()
    await page.keyboard.press("Enter")


async def in_review(owner: Caller) -> str:
    """A check that waits for a reviewer."""
    holder = await owner.cardholder(await owner.programme())
    check = await owner.post("/v1/kyc/checks", {"cardholder_id": holder["id"], "flow_key": "basic"})
    await submit(owner, check, BASIC | {"family_name": "REVIEW"})
    return str(check["id"])


if chromium():

    async def test_webhooks_and_events_work_by_keyboard_in_every_form(
        running: Installation, tenant: str
    ) -> None:
        owner = await running.caller(tenant, role="owner")
        async with served(running.app) as address, browser() as visit:
            page = visit.page
            await page.set_viewport_size(DESK)
            await sign_in_as(page, address, await person(running, tenant))
            await page.goto(f"{address}/console/webhooks/new")
            await check_page(page, "webhook-new")
            await page.get_by_label("Address").fill("https://hooks.example.com/stanchion")
            await page.keyboard.press("Enter")
            await expect(page.locator(".secret")).to_contain_text("whsec_")
            await press(page, "link", "Open the endpoint")
            await press(page, "button", "Rotate secret")
            dialog = page.get_by_role("dialog")
            await expect(dialog).to_contain_text("24 hours")
            await page.keyboard.press("Escape")
            await expect(dialog).to_be_hidden()
            await press(page, "button", "Send a test event")
            await expect(page.locator("h1")).to_have_text("webhook_endpoint.tested")
            await check_page(page, "webhook-event")
            endpoint = (await owner.get("/v1/webhook-endpoints"))["data"][0]
            await page.goto(f"{address}/console/webhooks/{endpoint['id']}")
            await expect(page.locator("main table")).to_contain_text("webhook_endpoint.tested")
            await check_page(page, "webhook-endpoint")
            await page.goto(f"{address}/console/events")
            await check_page(page, "events")
            await press(page, "link", "webhook_endpoint.tested")
            await check_page(page, "event")
            assert {url.startswith(address) for url in visit.addresses} == {True}
            assert visit.messages == []

    async def test_reviews_clients_and_audit_log_work_by_keyboard_in_every_form(
        running: Installation, tenant: str
    ) -> None:
        owner = await running.caller(tenant, role="owner")
        check = await in_review(owner)
        async with served(running.app) as address, browser() as visit:
            page = visit.page
            await page.set_viewport_size(DESK)
            await sign_in_as(page, address, await person(running, tenant))
            await page.goto(f"{address}/console/kyc")
            await check_page(page, "kyc")
            await page.goto(f"{address}/console/kyc/{check}")
            await expect(page.get_by_text("Inputs to ask for again")).to_be_hidden()
            await page.get_by_label("Ask for more").focus()
            await page.keyboard.press("Space")
            await page.get_by_label("given name").check()
            await check_page(page, "kyc-check")
            await press(page, "button", "Decide")
            await expect(page.locator(".notice")).to_have_text("The check is pending.")
            await page.goto(f"{address}/console/clients/new")
            await page.get_by_label("Name").fill("Back office")
            await check_page(page, "client-new")
            await press(page, "button", "Create client")
            await expect(page.locator(".secret")).to_contain_text("sk_")
            await press(page, "link", "Open the client")
            await press(page, "button", "Rotate secret")
            await check_page(page, "client-rotate")
            await page.goto(f"{address}/console/links")
            await check_page(page, "links")
            await page.goto(f"{address}/console/audit-log")
            await page.locator("details.act summary").first.focus()
            await page.keyboard.press("Enter")
            await expect(page.locator("details[open] .facts").first).to_be_visible()
            await check_page(page, "audit-log")
            assert {url.startswith(address) for url in visit.addresses} == {True}
            assert visit.messages == []
