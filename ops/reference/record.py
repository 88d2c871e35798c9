"""Records the examples from a running installation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx2

from ops.demo.endpoint import answering
from ops.embedded.local_https import Answer, Request
from ops.reference.journey import DECISION_PATH, walk
from ops.reference.recorder import Recorder
from stanchion import Client

DOCUMENT_PATH: Final = "/docs/openapi.json"
API: Final = "https://cards.example.com"
HOOKS: Final = "https://hooks.example.com"
DECISIONS: Final = "https://decisions.example.com/authorize"
CAPTURE: Final = "https://capture.example.com"


def record(base_url: str, client: Mapping[str, str], var_dir: Path, vision_url: str) -> dict[str, Any]:
    """The examples by operation name. Raises StanchionError. ``client``: its ``client_id`` and
    ``client_secret``; ``var_dir``: the installation's, for its authority."""
    with httpx2.Client(base_url=base_url, timeout=30.0) as http:
        recorder = Recorder(http.get(DOCUMENT_PATH).json())
        http.event_hooks = {"response": [recorder]}
        with answering(var_dir, _take) as receiver:
            walk(Client(base_url, client["client_id"], client["client_secret"], http=http), receiver)
    return recorder.examples(
        {base_url: API, receiver + DECISION_PATH: DECISIONS, receiver: HOOKS, vision_url: CAPTURE}
    )


async def _take(_request: Request) -> Answer:
    return Answer(200)
