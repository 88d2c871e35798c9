"""The example on the client's own page, ``api/client/README.md``, runs as printed."""

from __future__ import annotations

import asyncio
import contextlib
import io
from typing import Any

from structlog.testing import capture_logs

from actors.settings import Settings
from actors.vault import Vault
from tests.support.api.stack import installation, served
from tests.support.ops.pages import fence


async def test_example_of_the_page_spends_to_the_decision(settings: Settings, vault: Vault) -> None:
    code = fence("api/client/README.md", "stanchion-client", "python")
    async with installation(settings, vault) as running, served(running.app) as address:
        credentials = (await running.caller()).credentials
        names: dict[str, Any] = {
            "client_id": credentials.client_id,
            "client_secret": credentials.client_secret,
        }
        assert "http://127.0.0.1:8000" in code
        output = io.StringIO()
        # Without the log of this process, which prints too.
        with capture_logs(), contextlib.redirect_stdout(output):
            await asyncio.to_thread(exec, code.replace("http://127.0.0.1:8000", address), names)
    assert output.getvalue() == "approved 87.50\n"
