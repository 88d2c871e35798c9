"""``stanchion sign-in``: a link with which a person signs in to the console once, within 15 minutes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Final

from actors.settings import Settings
from actors.vault import Vault
from ops.database.local_owner import LOCAL_EMAIL
from ops.database.operator_acts import operator_of
from ops.database.users import LOCAL_OWNER
from ops.database.users import sign_in_link as database_link
from ops.supervision.installation import RUN_FILE, database

MODE: Final = "test"


def sign_in_link(var_dir: Path, *, mode: str = MODE) -> str:
    """The address of a new link for the local owner of the installation in ``var_dir``; the session shows
    ``mode``. Raises UserError, and what the database raises."""
    return link_of(Settings.load(var_dir=var_dir), LOCAL_EMAIL, mode)


def link_of(settings: Settings, email: str, mode: str = MODE) -> str:
    """The address of a new link for the user with that e-mail address. The local owner is created on its
    first use."""
    create = LOCAL_OWNER if email.lower() == LOCAL_EMAIL else None
    with database(settings) as dsn:
        vault = Vault.from_settings(settings, make=False)
        link = asyncio.run(database_link(dsn, vault, email, operator_of(settings), create=create))
    return f"{base_of(settings)}{link.path}" + (f"?mode={mode}" if mode != MODE else "")


def base_of(settings: Settings) -> str:
    """The address of the API: of the running installation, else of its settings."""
    run_file = settings.var_dir / RUN_FILE
    if run_file.exists():
        base: str = json.loads(run_file.read_bytes())["base_url"]
    else:
        base = f"{settings.web_scheme}://{settings.api_host}:{settings.api_port}"
    return base + settings.root_path
