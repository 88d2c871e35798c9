"""The examples of the reference are valid: requests are accepted, and answers have the recorded form."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from actors.settings import Settings
from actors.tasks import LocalTasks
from actors.vault import Vault
from api.backtests.leading import BacktestLeader
from api.docs.examples import recorded
from api.exports.writing import export_writer
from engine.scopes import SCOPES
from ops.embedded.local_https import with_local_egress
from ops.reference.record import record
from tests.support.api.stack import installation, served


@pytest.fixture
async def today(settings: Settings, vault: Vault) -> AsyncIterator[dict[str, Any]]:
    """The examples as they would be recorded now."""
    local = with_local_egress(settings)
    async with installation(local, vault, webhooks=True) as running, served(running.app) as address:
        exports = export_writer(running.services)
        backtests = BacktestLeader(running.services, LocalTasks(local))
        exports.start()
        backtests.start()
        credentials = (await running.caller(role="owner", scopes=SCOPES)).credentials
        client = {"client_id": credentials.client_id, "client_secret": credentials.client_secret}
        yield await asyncio.to_thread(record, address, client, local.var_dir, local.vision_address)
        await exports.stop()
        await backtests.stop()


def shape(value: Any) -> Any:
    """Names and JSON types; for a list, those of its elements. Instants can be null: whether a back-test has
    started when it is cancelled depends on the machine, as do the answers of the last minute."""
    if isinstance(value, dict):
        return {
            name: "instant"
            if name.endswith("_at") or name == "as_of"
            else "counts"
            if name == "answers_per_minute"
            else shape(member)
            for name, member in value.items()
        }
    if isinstance(value, list):
        return sorted({json.dumps(shape(element)) for element in value})
    return type(value).__name__


async def test_the_examples_match_the_api(today: dict[str, Any]) -> None:
    stored = recorded()
    assert today.keys() == stored.keys(), "python -m ops.reference records them again"
    for name, example in stored.items():
        made = today[name]
        assert shape(made["request"]) == shape(example["request"]), name
        assert made["query"].keys() == example["query"].keys(), name
        assert (made["status"], shape(made["response"])) == (example["status"], shape(example["response"])), (
            name
        )
