"""``stanchion sign-in``: the address of a link."""

from __future__ import annotations

import asyncio
import json
import re

from actors.settings import Settings
from actors.vault import Vault
from ops.commands.sign_in import link_of
from ops.database.local_owner import LOCAL_EMAIL

LINK = r"/console/enter/[\w-]{43}"


async def test_link_names_the_address_of_the_installation(settings: Settings, vault: Vault) -> None:
    local = settings.replace(api_port=8123, root_path="/cards")
    address = await asyncio.to_thread(link_of, local, LOCAL_EMAIL)
    assert re.fullmatch(rf"http://127\.0\.0\.1:8123/cards{LINK}", address)
    (local.var_dir / "run.json").write_text(json.dumps({"base_url": "https://127.0.0.1:9000"}))
    address = await asyncio.to_thread(link_of, local, LOCAL_EMAIL, "live")
    assert re.fullmatch(rf"https://127\.0\.0\.1:9000/cards{LINK}\?mode=live", address)
