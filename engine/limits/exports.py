"""Exports."""

from __future__ import annotations

from typing import Final

EXPORT_WINDOW_DAYS_MAX: Final = 366
EXPORTS_OPEN_MAX: Final = 5
"""Exports of one tenant and mode that wait or are being written."""
EXPORT_ADDRESS_SECONDS: Final = 3_600
"""Lifetime of a download address."""
EXPORT_KEEP_HOURS: Final = 24
"""Time after its creation at which an export and its content are deleted."""
EXPORT_PIECE_BYTES: Final = 1024 * 1024
"""Bytes of content that are compressed or sent at once."""
EXPORT_CHUNK_BYTES: Final = 256 * 1024
"""Compressed bytes in one row, at least: the last row may have fewer."""
EXPORT_BYTES_MAX: Final = 16 * 1024**3
"""Bytes of one export before its compression: about 40,000,000 transactions."""
EXPORT_SECONDS_MAX: Final = 3_600
"""Longest time to write one export. Its snapshot keeps old row versions from being removed for so long."""
EXPORT_LEASE_SECONDS: Final = 60
"""Time without progress after which another API server starts an export over."""
EXPORT_ATTEMPTS_MAX: Final = 3
EXPORT_POLL_SECONDS: Final = 1.0
"""Interval at which an API server looks for exports to write; it writes one at a time."""
