"""The pages of the vision host, their sessions and pictures."""

from __future__ import annotations

from typing import Final

CAPTURE_SESSION_SECONDS: Final = 3_600
"""Lifetime of a capture session."""
REVEAL_SESSION_SECONDS: Final = 300
"""Lifetime of a session that shows a card to its holder."""
REVEAL_ORIGINS_MAX: Final = 10
"""Origins that may frame the page of one session."""
REVEAL_SESSION_KEPT_SECONDS: Final = 86_400
"""Time that an expired session is kept, so that its link still says why it does not work."""
CUSTODY_LOG_DAYS: Final = 365
"""Time that rows of the custody log are kept; a trigger of the database refuses to delete younger ones."""
CUSTODY_SWEEP_SECONDS: Final = 600.0
"""Interval at which each API server deletes old sessions and old rows of the log."""
CUSTODY_SWEEP_MAX: Final = 1_000
"""Rows of each kind that one sweep deletes."""
BINDS_PER_WINDOW: Final = 10
"""Document types bound from one source address in a window."""
CAPTURE_REQUESTS_PER_WINDOW: Final = 120
"""All other requests of the capture page from one source address in a window: a person makes about ten."""
VISION_WINDOW_SECONDS: Final = 60
"""Length of that window."""
EVIDENCE_BYTES_MAX: Final = 4 * 1024 * 1024
"""One picture. The page shrinks a camera's picture to a tenth of this."""
EVIDENCE_RECEIPT_SECONDS: Final = 60
"""From a picture's first byte to its last: 4 MB from a phone with half a megabit a second."""
EVIDENCE_UPLOADS_MAX: Final = 16
"""Pictures that one server receives at the same time: 64 MB."""
EVIDENCE_STORED_AT_ONCE: Final = 1
"""Pictures that one vision host encrypts and stores at once: other requests wait for these steps."""
