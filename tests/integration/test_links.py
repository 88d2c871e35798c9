"""LINKS.md as printed: certificates by OpenSSL, an installation with links, and a processor that shares no
code with Stanchion."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from ops.embedded.ports import free_ports
from ops.supervision.running_installation import RunningInstallation
from tests.support.integration.stack import Stack, until
from tests.support.ops.pages import fences

PAGE = "ops/docs/LINKS.md"
CERTIFICATES, START, SIGN_OFF = (each.text for each in fences(PAGE) if each.language == "sh")
(LINKS,) = (each.text for each in fences(PAGE) if each.language == "toml")
(PROCESSOR,) = (each.text for each in fences(PAGE) if each.language == "python")
SHOWN, PRINTED = (each.text for each in fences(PAGE) if each.language == "text")
PORTS = ("8600", "8601")


async def run(*command: str, folder: Path, **variables: str) -> str:
    """Run a command in ``folder``; return its output, or fail with it."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={"PATH": programs} | variables,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()
    return output.decode()


def with_ports(text: str, ports: list[int]) -> str:
    for printed, port in zip(PORTS, ports, strict=True):
        text = text.replace(printed, str(port))
    return text


async def test_commands_of_the_page_lead_to_an_approved_message(tmp_path: Path) -> None:
    """Afterwards: the same processor meets no live card, and a live link meets no test card."""
    ports = free_ports(3)
    await run("bash", "-euo", "pipefail", "-c", CERTIFICATES, folder=tmp_path)
    live = f"""
[[links]]
name = "live"
direction = "listen"
mode = "live"
host = "127.0.0.1"
port = {ports[2]}
sign_on = "none"
"""
    (tmp_path / "links" / "links.toml").write_text(with_ports(LINKS, ports[:2]) + live)
    assert START.startswith("STANCHION_LINKS=links/links.toml stanchion up\n")
    settings = {
        "STANCHION_LINKS": str(tmp_path / "links" / "links.toml"),
        "STANCHION_AUTO_CLEAR_SECONDS": "0",
    }
    stack = Stack(RunningInstallation(tmp_path / "var", settings))
    await asyncio.to_thread(stack.start)
    try:
        variables = {**settings, "STANCHION_VAR_DIR": str(tmp_path / "var")}
        assert stack.record["iso8583"]["port"] == ports[1]
        await until(stack.healthy, "all processes serve")
        shown = await run("stanchion", "links", folder=tmp_path, **variables)
        # The last column has the sign-on, and an echo test after half a minute.
        rows = [line.split()[:-1] for line in shown.splitlines()]
        for printed in with_ports(SHOWN, ports[:2]).splitlines():
            assert printed.split()[:-1] in rows
        pans = {mode: await funded_pan(stack, mode) for mode in ("test", "live")}
        program = tmp_path / "processor.py"
        program.write_text(with_ports(PROCESSOR, [ports[0], 0]))
        printed = await run(sys.executable, str(program), folder=tmp_path, PAN=pans["test"])
        assert printed == PRINTED
        assert "0100 -> 0110 14\n" in await run(
            sys.executable, str(program), folder=tmp_path, PAN=pans["live"]
        )
        plain = "def plain(connection, server_hostname):\n    return connection\n\n"
        on_live = plain + PROCESSOR.replace("8600", str(ports[2])).replace("context.wrap_socket", "plain")
        program.write_text(on_live)
        assert "0100 -> 0110 14\n" in await run(
            sys.executable, str(program), folder=tmp_path, PAN=pans["test"]
        )
        # The live card exists there; it has no money.
        assert "0100 -> 0110 51\n" in await run(
            sys.executable, str(program), folder=tmp_path, PAN=pans["live"]
        )
        off, on = SIGN_OFF.splitlines()
        assert await run(*off.split(), folder=tmp_path, **variables) == "Link processor is signed off.\n"
        states = json.loads(await run("stanchion", "links", "--json", folder=tmp_path, **variables))
        assert {each["name"]: each["state"] for each in states} == {
            "processor": "signed_off",
            "simulator": "up",
            "live": "up",
        }
        program.write_text(with_ports(PROCESSOR, [ports[0], 0]))
        refused = await run("bash", "-c", f"! {sys.executable} {program}", folder=tmp_path, PAN=pans["test"])
        assert "ConnectionRefusedError" in refused
        assert await run(*on.split(), folder=tmp_path, **variables) == "Link processor is in use again.\n"
        assert "0800 -> 0810 00\n" in await run(
            sys.executable, str(program), folder=tmp_path, PAN=pans["test"]
        )
        page = stack.page("/metrics")[1]
        labels = 'link="processor",mti="0110",process="edge",response_code="14"'
        assert f"stanchion_link_answers_total{{{labels}}} 1.0" in page
    finally:
        await asyncio.to_thread(stack.stop)


async def funded_pan(stack: Stack, mode: str) -> str:
    """The number of a new card; in test mode with 100.00 EUR."""
    async with stack.caller(mode=mode) as caller:
        if mode == "test":
            card = await caller.funded_card("100.00")
        else:
            programme = await caller.programme()
            card = await caller.card(await caller.product(programme), await caller.cardholder(programme))
        return (await stack.card_data(card))[card["id"]]["pan"]
