"""The console is loaded at the first request for it."""

from __future__ import annotations

from tests.support.api.stack import Installation


async def test_paths_of_the_console_are_those_below_it(running: Installation) -> None:
    assert (await running.http.get("/console/sign-in")).status_code == 200
    for path in ("/consoles", "/console/nothing"):
        answer = await running.http.get(path)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"
    refused = await running.http.put("/console/sign-in")
    assert refused.status_code == 405
    assert set(refused.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}
