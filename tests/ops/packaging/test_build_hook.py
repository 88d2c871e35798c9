"""The two wheels: their top-level names, requirements and version, and the server's start from its wheel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

from stanchion import __version__

ROOT = Path(__file__).parents[3]


def build(project: Path, folder: Path) -> Path:
    """The wheel of a project, as `make wheels` builds it."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, tmp_path_factory.mktemp("server"))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT / "api/client", tmp_path_factory.mktemp("client"))


def metadata(wheel: Path) -> Any:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def top_level(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        names = {name.partition("/")[0] for name in archive.namelist()}
    return {name for name in names if not name.endswith(".dist-info")}


def test_each_wheel_has_one_top_level_name(server: Path, client: Path) -> None:
    assert top_level(server) == {"stanchion_server"}
    assert top_level(client) == {"stanchion"}


def test_both_have_one_version_and_belong_together(server: Path, client: Path) -> None:
    assert metadata(server)["Version"] == metadata(client)["Version"] == __version__
    assert f"stanchion-client=={__version__}" in metadata(server).get_all("Requires-Dist")


def test_the_client_needs_an_http_client_only(client: Path) -> None:
    needed = [re.split(r"[<>=~! ]", each)[0] for each in metadata(client).get_all("Requires-Dist")]
    # The second one is for Python 3.10 alone.
    assert needed == ["httpx2", "typing-extensions"]
    assert metadata(client)["Requires-Python"] == ">=3.10"
    with zipfile.ZipFile(client) as archive:
        assert {"stanchion/py.typed", "stanchion/LICENSE"} <= set(archive.namelist())


def test_the_server_contains_its_files_and_not_the_client(server: Path) -> None:
    with zipfile.ZipFile(server) as archive:
        names = set(archive.namelist())
    for package in ("engine", "actors", "api", "ops"):
        assert f"stanchion_server/{package}/__init__.py" in names
    migrations = {
        f"stanchion_server/ops/migrations/{path.name}" for path in ROOT.glob("ops/migrations/*.sql")
    }
    assert migrations
    assert migrations <= names
    assert not [name for name in names if "api/client/" in name or "loadtests" in name]


def test_the_command_runs_from_the_unpacked_wheels(server: Path, client: Path, tmp_path: Path) -> None:
    """Without the checkout on the module path; another package called ``api`` is not in the way."""
    for wheel in (server, client):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(tmp_path)
    (tmp_path / "api.py").write_text("raise ImportError('the api of another program')\n")
    checkout = {str(ROOT), str(ROOT / "api/client"), str(ROOT / "ops/packaging/launcher")}
    program = (
        f"import sys; sys.path[:] = [{str(tmp_path)!r}, *(p for p in sys.path if p not in {checkout!r})];"
        " sys.argv = ['stanchion', 'version']; from stanchion_server import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"stanchion {__version__}\n"), done.stderr


def test_a_process_started_by_the_command_finds_the_packages(
    server: Path, client: Path, tmp_path: Path
) -> None:
    for wheel in (server, client):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(tmp_path)
    program = (
        "import os, subprocess, sys; import stanchion_server; stanchion_server.extend_path();"
        " stanchion_server.extend_path();"
        " inner = 'import engine, stanchion_server; print(engine.__path__[0])';"
        " print(os.environ['PYTHONPATH'], flush=True);"
        " sys.exit(subprocess.call([sys.executable, '-c', inner]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    folder = str(tmp_path / "stanchion_server")
    paths, found = done.stdout.splitlines()
    assert paths == os.pathsep.join((folder, str(tmp_path))), done.stderr
    assert found == str(Path(folder) / "engine")


def test_each_document_of_the_client_is_for_its_wheel(client: Path) -> None:
    assert metadata(client).get_payload().startswith("# stanchion-client\n")
