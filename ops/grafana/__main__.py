"""`python -m ops.grafana` writes the dashboards' JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from ops.grafana.pages import pages

FOLDER: Final = Path(__file__).parent / "json"


def rendered() -> dict[str, str]:
    """The text of each dashboard by the name of its file."""
    return {
        f"{name}.json": json.dumps(json.loads(JSONEncoder().encode(built.build())), indent=2) + "\n"
        for name, built in pages().items()
    }


def main() -> None:
    """Write changed dashboards and delete files of removed ones."""
    FOLDER.mkdir(exist_ok=True)
    texts = rendered()
    for stale in {path.name for path in FOLDER.glob("*.json")} - texts.keys():
        (FOLDER / stale).unlink()
    for name, text in texts.items():
        (FOLDER / name).write_text(text, "utf-8")
        print(f"ops/grafana/json/{name}")


if __name__ == "__main__":
    main()
