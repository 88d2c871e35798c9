"""The processes of an installation: owners of cards and programmes, journal, ISO 8583 edge, webhooks.

Imports go downwards only: ``boot > cluster > network | webhooks > outbox > shards > router > cards |
programmes > journal > vault | egress > database > metrics | settings``. The full list is in
``pyproject.toml``. Only ``actors.cluster`` imports Ray, so everything else runs in a plain test.
"""

import sys

# structlog imports rich, if it is installed, for tracebacks on a terminal. Log lines are JSON, and rich would
# cost each process megabytes and a tenth of a second. So structlog is imported as if rich were not installed.
if "structlog" not in sys.modules:
    _rich = sys.modules.get("rich")
    sys.modules["rich"] = None  # type: ignore[assignment]
    import structlog  # noqa: F401

    del sys.modules["rich"]
    if _rich is not None:
        sys.modules["rich"] = _rich
