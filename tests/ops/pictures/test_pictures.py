"""Pictures of the pages, taken in a real browser, if Chromium is installed (`.ci/run` installs it)."""

from __future__ import annotations

import asyncio
import json
import struct
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from actors.settings import Settings
from actors.vault import Vault
from ops.database.local_owner import LOCAL_EMAIL, LOCAL_TENANT
from ops.database.users import LOCAL_OWNER, sign_in_link
from ops.pictures.__main__ import BYTES_MAX, HEIGHT, THEMES, WIDTH, PicturesError, main, take
from ops.pictures.pages import PAGES
from tests.support.api.stack import installation, served
from tests.support.api.vision.browser import chromium

PICTURES = Path(__file__).parents[3] / "ops/docs/pictures"


def size(picture: bytes) -> tuple[int, int]:
    """Width and height of a PNG (its first chunk is IHDR)."""
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack_from(">II", picture, 16)
    return width, height


def test_kept_pictures_are_small_and_of_known_pages() -> None:
    known = {f"{name}-{theme}.png" for name in PAGES for theme in THEMES}
    kept = {path.name: path for path in PICTURES.glob("*")}
    assert {"console-light.png", "console-dark.png"} <= kept.keys() <= known
    for path in kept.values():
        assert path.stat().st_size <= BYTES_MAX
        assert size(path.read_bytes()) == (WIDTH, HEIGHT)


def test_absent_installation_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pictures", "--var", str(tmp_path)])
    assert main() == 1
    assert capsys.readouterr().err.startswith(f"pictures: no installation runs in {tmp_path}: ")


if chromium():

    async def test_pages_are_taken_light_and_dark_and_missing_ones_named(
        settings: Settings, vault: Vault, tmp_path: Path
    ) -> None:
        async with installation(settings, vault) as running, served(running.app) as address:
            acme = await running.caller(LOCAL_TENANT)

            def make_link() -> str:
                made = sign_in_link(settings.database_dsn, vault, LOCAL_EMAIL, "ops", create=LOCAL_OWNER)
                return address + asyncio.run(made).path

            settings.var_dir.mkdir(exist_ok=True)
            record = {"base_url": address, "tenants": [asdict(acme.credentials)]}
            (settings.var_dir / "run.json").write_text(json.dumps(record))
            pages = {
                "console": "/console",
                "landing": "/",
                "missing": "/console/no-such-page",
            }
            with pytest.raises(PicturesError, match="no delegated programme"):
                await asyncio.to_thread(take, settings.var_dir, tmp_path / "to", pages, make_link)
            card = await acme.funded_card()
            await acme.patch(
                f"/v1/programs/{card['programme_id']}",
                {"decisioning": "delegated", "decision_url": "https://example.com/decide"},
            )
            assert (await acme.spend(card, "900.00"))["decision"] == "declined"
            failures = await asyncio.to_thread(take, settings.var_dir, tmp_path / "to", pages, make_link)
        assert [line.partition(":")[0] for line in failures] == ["missing (light)", "missing (dark)"]
        taken = {path.name: path.read_bytes() for path in (tmp_path / "to").iterdir()}
        assert taken.keys() == {f"{name}-{theme}.png" for name in ("console", "landing") for theme in THEMES}
        assert all(size(picture) == (WIDTH, HEIGHT) for picture in taken.values())
        assert taken["console-light.png"] != taken["console-dark.png"]
