"""Commands on an installation in this process, whose API listens on a port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from typer.testing import CliRunner, Result

from actors.settings import Settings
from actors.vault import Vault
from ops.cli import app
from ops.supervision.installation import RUN_FILE
from tests.support.api.driver import Caller
from tests.support.api.stack import installation, served


@dataclass(frozen=True)
class Commands:
    """Runs commands as the user of the state folder, whose ``run.json`` names the client of ``caller``."""

    var_dir: Path
    caller: Caller

    async def run(self, *arguments: str) -> Result:
        """The result of `stanchion` with these arguments."""
        words = [*arguments, "--var", str(self.var_dir)]
        return await asyncio.to_thread(lambda: CliRunner().invoke(app, words))


@asynccontextmanager
async def commands(settings: Settings, vault: Vault) -> AsyncIterator[Commands]:
    """An installation, and its commands."""
    async with installation(settings, vault) as running, served(running.app) as address:
        caller = await running.caller()
        tenants = [asdict(caller.credentials) | {"mode": "test", "role": "admin"}]
        (settings.var_dir / RUN_FILE).write_text(json.dumps({"base_url": address, "tenants": tenants}))
        yield Commands(settings.var_dir, caller)
