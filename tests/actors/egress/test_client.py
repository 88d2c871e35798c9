"""Calls to real receivers over TLS: requests, answers, failures, and refused targets."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_network
from pathlib import Path

import pytest

from actors.egress.answers import EgressError, Received
from actors.egress.client import Egress
from actors.egress.target import TargetRefusedError
from engine.limits import EGRESS_CONNECTIONS_PER_TARGET_MAX
from tests.support.actors.egress.receiver import (
    OK,
    Authority,
    answering,
    authority,
    disconnect,
    receiving,
    silence,
)

LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
NAME = "hooks.example.com"


class Names:
    """A resolver with answers that tests change; it records the names that were looked up."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[str, ...]] = {NAME: ("127.0.0.1",)}
        self.looked_up: list[str] = []

    async def __call__(self, name: str) -> tuple[str, ...]:
        self.looked_up.append(name)
        if name not in self.answers:
            raise OSError("no such name")
        return self.answers[name]


class ManualClock:
    """A clock that only tests move."""

    now = 0.0

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def names() -> Names:
    return Names()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def egress(trusted: Authority, names: Names, clock: ManualClock) -> AsyncIterator[Egress]:
    egress = Egress(LOOPBACK, trusted.file, lookup=names, clock=clock)
    yield egress
    await egress.close()
    await egress.close()


async def post(egress: Egress, url: str, timeout_seconds: float = 5, body_bytes_max: int = 100) -> Received:
    return await egress.post(
        url,
        b'{"a":1}',
        {"Content-Type": "application/json", "X-Test": "1"},
        timeout_seconds=timeout_seconds,
        body_bytes_max=body_bytes_max,
    )


async def reason_of(egress: Egress, url: str, timeout_seconds: float = 5) -> str:
    with pytest.raises(EgressError) as failed:
        await post(egress, url, timeout_seconds)
    return failed.value.reason


# --- requests ---


async def test_request_goes_to_the_address_with_the_name_in_host(egress: Egress, trusted: Authority) -> None:
    async with receiving(trusted.server(NAME), answering(OK)) as receiver:
        answer = await post(egress, f"https://{NAME}:{receiver.port}/a%2Fb//..?x=%7e&y={{}}")
    assert answer == Received(200, b"ok", truncated=False)
    assert receiver.bodies == [b'{"a":1}']
    line, *headers = receiver.heads[0].split("\r\n")
    assert line == "POST /a%2Fb//..?x=%7e&y={} HTTP/1.1", "the path is passed on as it was given"
    sent = dict(header.split(": ", 1) for header in headers if header)
    assert sent == {
        "Host": f"{NAME}:{receiver.port}",
        "User-Agent": "Stanchion/1",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "Content-Length": "7",
        "X-Test": "1",
    }


async def test_literal_address_is_called_without_a_look_up(
    egress: Egress, names: Names, trusted: Authority
) -> None:
    async with receiving(trusted.server("127.0.0.1"), answering(OK)) as receiver:
        assert (await post(egress, f"https://127.0.0.1:{receiver.port}/")).status == 200
    assert names.looked_up == []
    assert f"Host: 127.0.0.1:{receiver.port}\r\n" in receiver.heads[0]


async def test_idle_connection_is_reused(egress: Egress, trusted: Authority) -> None:
    async with receiving(trusted.server(NAME), answering(OK)) as receiver:
        for _ in range(5):
            await post(egress, f"https://{NAME}:{receiver.port}/")
        assert receiver.connections == 1


async def test_proxies_and_credentials_of_the_environment_are_not_used(
    egress: Egress, trusted: Authority, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text(f"machine {NAME} login a password b")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    async with (
        receiving(None, answering(OK)) as proxy,
        receiving(trusted.server(NAME), answering(OK)) as receiver,
    ):
        for name in ("https_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        await post(egress, f"https://{NAME}:{receiver.port}/")
    assert proxy.connections == 0
    assert "Authorization" not in receiver.heads[0]


async def test_cookies_are_not_kept(egress: Egress, trusted: Authority) -> None:
    answer = OK.replace(b"\r\n\r\n", b"\r\nSet-Cookie: a=b\r\n\r\n")
    async with receiving(trusted.server(NAME), answering(answer)) as receiver:
        await post(egress, f"https://{NAME}:{receiver.port}/")
        await post(egress, f"https://{NAME}:{receiver.port}/")
    assert "Cookie" not in receiver.heads[1]


# --- answers ---


@pytest.mark.parametrize("status", [201, 204, 299, 301, 302, 307, 308, 400, 410, 500, 503])
async def test_every_status_is_returned_and_redirects_are_not_followed(
    egress: Egress, trusted: Authority, status: int
) -> None:
    async with receiving(trusted.server(NAME), answering(OK)) as elsewhere:
        location = f"Location: https://{NAME}:{elsewhere.port}/\r\n".encode()
        answer = b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n%b\r\n" % (status, location)
        async with receiving(trusted.server(NAME), answering(answer)) as receiver:
            assert (await post(egress, f"https://{NAME}:{receiver.port}/")).status == status
    assert elsewhere.connections == 0


@pytest.mark.parametrize(
    ("size", "taken", "truncated"), [(0, 0, False), (99, 99, False), (100, 100, False), (101, 100, True)]
)
async def test_only_the_beginning_of_a_body_is_read(
    egress: Egress, trusted: Authority, size: int, taken: int, truncated: bool
) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    async with receiving(trusted.server(NAME), answering(answer)) as receiver:
        received = await post(egress, f"https://{NAME}:{receiver.port}/")
        assert received == Received(200, b"x" * taken, truncated)


async def test_endless_body_is_truncated(egress: Egress, trusted: Authority) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1000\r\n" + b"x" * 0x1000 + b"\r\n")
            await writer.drain()

    async with receiving(trusted.server(NAME), endless) as receiver:
        assert (await post(egress, f"https://{NAME}:{receiver.port}/")).truncated


async def test_answers_are_not_decompressed(egress: Egress, trusted: Authority) -> None:
    bomb = gzip.compress(bytes(50_000))
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    async with receiving(trusted.server(NAME), answering(head + bomb)) as receiver:
        received = await post(egress, f"https://{NAME}:{receiver.port}/", body_bytes_max=1_000)
    assert received == Received(200, bomb, truncated=False)


# --- failures ---


async def test_untrusted_certificate_is_refused(egress: Egress, trusted: Authority, tmp_path: Path) -> None:
    async with receiving(authority(tmp_path).server(NAME), answering(OK)) as receiver:
        assert await reason_of(egress, f"https://{NAME}:{receiver.port}/") == "tls"
    async with receiving(trusted.server("other.example.com"), answering(OK)) as receiver:
        assert await reason_of(egress, f"https://{NAME}:{receiver.port}/") == "tls"
    assert receiver.heads == []


async def test_receiver_without_tls_is_refused(egress: Egress) -> None:
    async with receiving(None, answering(OK)) as receiver:
        assert await reason_of(egress, f"https://{NAME}:{receiver.port}/", 0.3) in {"tls", "timeout"}
    assert receiver.heads == []


async def test_refused_connection_and_unknown_name_have_different_reasons(
    egress: Egress, trusted: Authority, free_port: int
) -> None:
    assert await reason_of(egress, f"https://{NAME}:{free_port}/") == "connect"
    assert await reason_of(egress, f"https://nowhere.example.com:{free_port}/") == "resolution"


@pytest.mark.parametrize(
    "name", ["xn--a", "xn--lcalhost-54a.example", "xn--zz-.example", "a" * 63 + ".example"]
)
async def test_name_that_libraries_cannot_parse_fails_without_a_request(
    egress: Egress, names: Names, trusted: Authority, name: str
) -> None:
    names.answers[name] = ("127.0.0.1",)
    async with receiving(trusted.server(NAME), answering(OK)) as receiver:
        assert await reason_of(egress, f"https://{name}:{receiver.port}/") in {
            "tls",
            "protocol",
            "target_refused",
        }
    assert receiver.heads == []


@pytest.mark.parametrize(
    "answer",
    [
        silence,
        answering(b"HTTP/1.1 200 OK\r\n"),
        answering(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"),
        answering(b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["silent", "half a head", "half a body", "never final"],
)
async def test_timeout_covers_the_whole_exchange(
    egress: Egress, trusted: Authority, answer: Callable[[asyncio.StreamWriter], object]
) -> None:
    async with receiving(trusted.server(NAME), answer) as receiver:  # type: ignore[arg-type]
        assert await reason_of(egress, f"https://{NAME}:{receiver.port}/", 0.2) == "timeout"


async def test_timeout_covers_the_look_up(trusted: Authority) -> None:
    async def never(_name: str) -> tuple[str, ...]:
        await asyncio.Event().wait()
        return ()

    egress = Egress(LOOPBACK, trusted.file, lookup=never)
    assert await reason_of(egress, f"https://{NAME}/", 0.05) == "timeout"
    await egress.close()


async def test_closed_connection_is_reported_as_disconnected(egress: Egress, trusted: Authority) -> None:
    async def half(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
        await writer.drain()
        writer.close()

    for answer in (disconnect, half):
        async with receiving(trusted.server(NAME), answer) as receiver:
            assert await reason_of(egress, f"https://{NAME}:{receiver.port}/") == "disconnected"


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 banana\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * 20_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 5_000 + b"\r\n",
    ],
    ids=["ssh", "no status", "negative length", "long header", "many headers"],
)
async def test_answer_that_is_not_http_is_a_protocol_error(
    egress: Egress, trusted: Authority, answer: bytes
) -> None:
    async with receiving(trusted.server(NAME), answering(answer)) as receiver:
        assert await reason_of(egress, f"https://{NAME}:{receiver.port}/") == "protocol"


async def test_header_value_cannot_inject_another_header(egress: Egress, trusted: Authority) -> None:
    async with receiving(trusted.server(NAME), answering(OK)) as receiver:
        with pytest.raises(EgressError):
            await egress.post(
                f"https://{NAME}:{receiver.port}/",
                b"{}",
                {"X-Test": "a\r\nX-Other: b"},
                timeout_seconds=5,
                body_bytes_max=10,
            )
    assert receiver.heads == []


async def test_hanging_receiver_does_not_delay_others(egress: Egress, trusted: Authority) -> None:
    arrived = asyncio.Semaphore(0)

    async def hang(writer: asyncio.StreamWriter) -> None:
        arrived.release()
        await silence(writer)

    async with (
        receiving(trusted.server(NAME), hang) as stuck,
        receiving(trusted.server(NAME), answering(OK)) as healthy,
    ):
        hanging = [asyncio.create_task(post(egress, f"https://{NAME}:{stuck.port}/", 60)) for _ in range(100)]
        for _ in range(EGRESS_CONNECTIONS_PER_TARGET_MAX):
            await arrived.acquire()
        assert (await post(egress, f"https://{NAME}:{healthy.port}/", 5)).status == 200
        assert stuck.connections == EGRESS_CONNECTIONS_PER_TARGET_MAX
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)


# --- targets ---


@pytest.mark.parametrize(
    "url",
    ["http://hooks.example.com/", "https://10.0.0.1/", "https://[::ffff:127.0.0.1]/", "https://0x7f.1/"],
)
async def test_refused_targets_are_not_called(egress: Egress, url: str) -> None:
    assert await reason_of(egress, url) == "target_refused"


async def test_loopback_is_refused_unless_allowed(trusted: Authority, names: Names) -> None:
    egress = Egress((), trusted.file, lookup=names)
    async with receiving(trusted.server(NAME, "127.0.0.1"), answering(OK)) as receiver:
        for host in (NAME, "127.0.0.1"):
            assert await reason_of(egress, f"https://{host}:{receiver.port}/") == "target_refused"
            with pytest.raises(TargetRefusedError):
                await egress.check(f"https://{host}:{receiver.port}/")
    assert receiver.connections == 0
    await egress.close()


async def test_address_is_checked_again_in_each_call(
    egress: Egress, names: Names, clock: ManualClock, trusted: Authority
) -> None:
    async with receiving(trusted.server(NAME), answering(OK)) as receiver:
        url = f"https://{NAME}:{receiver.port}/"
        await egress.check(url)
        assert (await post(egress, url)).status == 200
        names.answers[NAME] = ("169.254.169.254",)
        clock.now += 2
        assert await reason_of(egress, url) == "target_refused", "the idle connection is not reused"
        names.answers[NAME] = ("127.0.0.1", "10.0.0.1")
        clock.now += 2
        assert await reason_of(egress, url) == "target_refused", "one refused address refuses the name"
        assert len(receiver.heads) == 1


async def test_changed_address_of_a_name_is_used_at_once(
    egress: Egress, names: Names, clock: ManualClock, trusted: Authority
) -> None:
    tls = trusted.server(NAME)
    async with receiving(tls, answering(OK)) as old, receiving(tls, answering(OK), "127.0.0.2") as new:
        await post(egress, f"https://{NAME}:{old.port}/")
        names.answers[NAME] = ("127.0.0.2",)
        clock.now += 2
        await post(egress, f"https://{NAME}:{new.port}/")
        with contextlib.suppress(EgressError):
            await post(egress, f"https://{NAME}:{old.port}/")
        assert len(new.heads) >= 1
        assert len(old.heads) == 1, "the idle connection to the former address is not reused"


async def test_rebinding_resolver_is_asked_once_for_each_call(trusted: Authority, clock: ManualClock) -> None:
    """The resolver answers first with an allowed address, then with a refused one."""
    answers = iter([("127.0.0.1",), ("10.0.0.1",)])

    async def rebinding(_name: str) -> tuple[str, ...]:
        clock.now += 2
        return next(answers)

    egress = Egress(LOOPBACK, trusted.file, lookup=rebinding, clock=clock)
    async with receiving(trusted.server(NAME), answering(OK)) as receiver:
        url = f"https://{NAME}:{receiver.port}/"
        assert (await post(egress, url)).status == 200
        clock.now += 2
        assert await reason_of(egress, url) == "target_refused"
        assert len(receiver.heads) == 1
    await egress.close()


async def test_address_of_the_other_family_is_tried_when_the_first_fails(
    egress: Egress, names: Names, trusted: Authority
) -> None:
    names.answers[NAME] = ("::1", "127.0.0.1")
    async with receiving(trusted.server(NAME), answering(OK)) as receiver:
        assert (await post(egress, f"https://{NAME}:{receiver.port}/")).status == 200


async def test_concurrent_calls_share_one_look_up(egress: Egress, names: Names, trusted: Authority) -> None:
    async with receiving(trusted.server(NAME), answering(OK)) as receiver:
        url = f"https://{NAME}:{receiver.port}/"
        await asyncio.gather(*(post(egress, url) for _ in range(20)))
    assert names.looked_up == [NAME]


async def test_default_resolver_is_the_system_resolver(trusted: Authority) -> None:
    egress = Egress(LOOPBACK, trusted.file)
    await egress.check("https://localhost:8443/")
    await egress.close()
