"""An installation as its users see it: the API, the ISO 8583 port, and the processes on its machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, Protocol

from loadtests.generators.http import Api
from loadtests.generators.wire import Address
from loadtests.generators.workload import Card
from loadtests.harness.children import ChildError
from loadtests.harness.processes import command_line, tree

SETUP_CONNECTIONS: Final = 16
_GCS_ADDRESS: Final = "--gcs-address="


class Front(Protocol):
    """An installation with cards: ours, or that of an earlier commit."""

    @property
    def edge(self) -> Address: ...
    @property
    def api(self) -> Api: ...
    @property
    def cards(self) -> list[Card]: ...
    @property
    def card_ids(self) -> list[str]: ...


async def signed_in(run: Mapping[str, Any], stack: AsyncExitStack) -> Api:
    """The API of the installation with this ``run.json``, as an administrator in test mode."""
    client = next(each for each in run["tenants"] if (each["mode"], each["role"]) == ("test", "admin"))
    api = Api(run["base_url"], SETUP_CONNECTIONS)
    await api.open(client)
    stack.push_async_callback(api.close)
    return api


def address_of(run: Mapping[str, Any]) -> Address:
    """Where the installation with this ``run.json`` speaks ISO 8583."""
    return run["iso8583"]["host"], run["iso8583"]["port"]


def dsn_of(var_dir: Path) -> str:
    """The address of the installation's database, as the owner of its tables: other roles may not vacuum."""
    return str(json.loads((var_dir / "servers.json").read_bytes())["migrations_database_url"])


def labels_of(processes: Mapping[str, int], supervisor: int) -> dict[int, str]:
    """The parts of an installation by process id, from the processes that its metrics page names."""
    labels = {pid: "hosts" if name.startswith("host-") else name for name, pid in processes.items() if name}
    return labels | {supervisor: "supervisor"}


def ray_address(supervisor: int) -> str:
    """The address of the local Ray that the installation with this process id has started, read from the
    command lines of its processes. Raises ChildError."""
    for process in tree(supervisor):
        _, found, rest = command_line(process.pid).partition(_GCS_ADDRESS)
        if found:
            return rest.split()[0]
    raise ChildError("the installation has no Ray of its own")
