"""A port without a listener."""

from __future__ import annotations

import pytest

from ops.embedded.ports import free_ports


@pytest.fixture
def free_port() -> int:
    return free_ports(1)[0]
