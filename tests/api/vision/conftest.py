"""Leaves out the tests that need a browser where none is installed."""

from __future__ import annotations

from tests.support.api.vision.browser import chromium

collect_ignore = [] if chromium() else ["test_reveal_page.py"]
