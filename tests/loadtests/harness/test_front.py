"""The parts of an installation by process id."""

from __future__ import annotations

import os

import pytest

from loadtests.harness.children import ChildError
from loadtests.harness.front import address_of, labels_of, ray_address


def test_hosts_are_one_part_and_the_supervisor_has_its_own() -> None:
    found = labels_of({"host-1": 11, "host-2": 12, "edge": 13, "": 14}, 10)
    assert found == {11: "hosts", 12: "hosts", 13: "edge", 10: "supervisor"}


def test_the_address_is_that_of_run_json() -> None:
    assert address_of({"iso8583": {"host": "127.0.0.1", "port": 8583}}) == ("127.0.0.1", 8583)


def test_processes_without_ray_have_no_address() -> None:
    with pytest.raises(ChildError, match="the installation has no Ray of its own"):
        ray_address(os.getpid())
