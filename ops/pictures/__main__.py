"""``python -m ops.pictures``: sign in to a running installation and take a picture of each page, light and
dark. Needs Chromium, and the development packages."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from ops.commands.sign_in import sign_in_link
from ops.pictures.pages import HOME, PAGES
from ops.supervision.installation import RUN_FILE
from stanchion import Client

FOLDER: Final = Path("ops/docs/pictures")
THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
WIDTH: Final = 1280
HEIGHT: Final = 800
BYTES_MAX: Final = 200_000
SETTLE_MS: Final = 1_500
"""Time for charts to be drawn after the page has loaded."""
FLAGS: Final = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
OK: Final = 200


class PicturesError(Exception):
    """A picture cannot be taken. The message is one line."""


def main() -> int:
    """Take the pictures; the exit status is 0 if every page could be shown."""
    parser = argparse.ArgumentParser(prog="python -m ops.pictures", description=__doc__)
    parser.add_argument("--var", type=Path, default=Path("var"), help="state folder of the installation")
    parser.add_argument("--to", type=Path, default=FOLDER, help="folder of the pictures")
    parser.add_argument("--only", nargs="*", choices=sorted(PAGES), default=None, metavar="NAME")
    given = parser.parse_args()
    pages = {name: PAGES[name] for name in given.only or PAGES}
    try:
        failures = take(given.var, given.to, pages, lambda: sign_in_link(given.var))
    except PicturesError as failure:
        failures = [str(failure)]
    for line in failures:
        print(f"pictures: {line}", file=sys.stderr)
    return 1 if failures else 0


def take(var_dir: Path, folder: Path, pages: Mapping[str, str], make_link: Callable[[], str]) -> list[str]:
    """Write a picture of each of ``pages`` for each theme to ``folder``; returns a line for each page that
    cannot be shown. ``make_link``: returns a new link that signs in once. Raises PicturesError."""
    run_file = var_dir / RUN_FILE
    if not run_file.exists():
        raise PicturesError(
            f"no installation runs in {var_dir}: make demo KEEP=1, stanchion demo --keep --var DIR"
        )
    record = json.loads(run_file.read_bytes())
    addresses = {name: path.format(**ids(run_file)) for name, path in pages.items()}
    folder.mkdir(parents=True, exist_ok=True)
    failures = []
    # Before the browser starts: it runs an event loop in this thread.
    link = make_link()
    with _browser() as browser:
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, reduced_motion="reduce")
        sign_in(page, link, record["base_url"] + HOME)
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            for name, path in addresses.items():
                failure = _shoot(page, record["base_url"] + path, folder / f"{name}-{theme}.png")
                if failure is not None:
                    failures.append(f"{name} ({theme}): {failure}")
    return failures


def ids(run_file: Path) -> dict[str, str]:
    """The ids that stand in the addresses. Raises PicturesError without such traffic."""
    with Client.of_installation(run_file) as client:
        programme = next(
            (each for each in client.programs.list() if each["decisioning"] == "delegated"), None
        )
        if programme is None:
            raise PicturesError(
                "the installation has no delegated programme: start it with `make demo KEEP=1`"
            )
        declined = client.transactions.list(programme_id=programme["id"], decision="declined", page_size=1)
        transaction = next(iter(declined), None)
        if transaction is None:
            raise PicturesError("the delegated programme has no declined purchase")
        return {
            "programme": programme["id"],
            "transaction": transaction["id"],
            "card": transaction["card_id"],
        }


def sign_in(page: Page, link: str, home: str) -> None:
    """Use the console's one-time link. Raises PicturesError."""
    page.goto(link)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda address: address != link)
    shown = page.goto(home)
    if shown is None or shown.status != OK or page.url.rstrip("/") != home.rstrip("/"):
        raise PicturesError("the console does not accept the sign-in")


def _shoot(page: Page, address: str, path: Path) -> str | None:
    """Write the picture; returns the reason if that fails."""
    try:
        shown = page.goto(address)
    except PlaywrightError as failure:
        return failure.message.splitlines()[0]
    if shown is None or shown.status != OK:
        return f"{address} answers {'nothing' if shown is None else shown.status}"
    page.wait_for_timeout(SETTLE_MS)
    picture = page.screenshot()
    if len(picture) > BYTES_MAX:
        return f"{len(picture):,} bytes are more than {BYTES_MAX:,}"
    path.write_bytes(picture)
    print(f"{path}  {len(picture):,} bytes")
    return None


@contextmanager
def _browser() -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        raise PicturesError("Chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


if __name__ == "__main__":
    sys.exit(main())
