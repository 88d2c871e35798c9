"""The whole installation on the user's own PostgreSQL and Redis: nothing embedded is started."""

from __future__ import annotations

from pathlib import Path

from ops.running import RunningInstallation
from tests.integration.stack import Stack


async def test_own_postgresql_and_redis(database_url: str, redis_url: str, tmp_path: Path) -> None:
    settings = {"STANCHION_DATABASE_URL": database_url, "STANCHION_REDIS_URL": redis_url}
    stack = Stack(RunningInstallation(tmp_path / "var", settings | {"STANCHION_AUTO_CLEAR_SECONDS": "0"}))
    stack.start()
    try:
        async with stack.caller() as demo:
            card = await demo.funded_card("100.00")
            assert (await demo.spend(card, "42.50"))["decision"] == "approved"
            assert (await demo.spend(card, "60.00"))["decline_reason"] == "insufficient_funds"
        programs = [command.split()[0] for command in stack.descendants().values()]
        assert not [program for program in programs if program.endswith(("/postgres", "/valkey-server"))]
        assert not (stack.installation.var_dir / "postgres").exists()
    finally:
        stack.stop()
    await stack.assert_books(database_url)
