"""How the demo's reader signs in to the console."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

_MODULE: Final = "ops.commands.sign_in"
_FUNCTION: Final = "sign_in_link"


def one_time_link(var_dir: Path) -> str | None:
    """A new one-time link to the console of the running installation; ``None`` if this release has none."""
    try:
        make: Callable[[Path], str] = getattr(import_module(_MODULE), _FUNCTION)
    except ModuleNotFoundError:
        return None
    return make(var_dir)


def sign_in_lines(var_dir: Path, record: Mapping[str, Any]) -> list[str]:
    """The one-time link, or the console's address and a client. ``record``: the content of ``run.json``."""
    link = one_time_link(var_dir)
    if link is not None:
        return [link]
    admin = next(each for each in record["tenants"] if (each["mode"], each["role"]) == ("test", "admin"))
    return [
        f"{record['base_url']}/console",
        f"client id     {admin['client_id']}",
        f"client secret {admin['client_secret']}",
    ]
