"""A client of the REST API that reads and changes one card without a pause, on a persistent connection."""

from __future__ import annotations

import threading
import time
from typing import Final

from stanchion import Client, StanchionError, money

PAUSE_SECONDS: Final = 0.02


class ApiUser:
    """Call ``begin`` and ``end`` once each; ``end`` may be called again."""

    def __init__(self, client: Client, card_id: str) -> None:
        self._client = client
        self._card_id = card_id
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="api-user", daemon=True)
        self.done = 0
        """The number of requests that were answered."""
        self.refused: list[str] = []
        """The errors of requests that failed for good; the client repeats what may be repeated."""
        self.slowest_seconds = 0.0

    def begin(self) -> None:
        """Start to send requests, in a thread."""
        self._thread.start()

    async def end(self) -> None:
        """Stop after the request under way."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        self._client.close()

    def _work(self) -> None:
        while not self._ending.is_set():
            began = time.monotonic()
            try:
                self._client.cards.load(self._card_id, money("0.01", "EUR"))
                self._client.cards.get(self._card_id)
            except StanchionError as failure:
                self.refused.append(f"{type(failure).__name__}: {failure}")
            else:
                self.done += 2
            self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)
            self._ending.wait(PAUSE_SECONDS)
