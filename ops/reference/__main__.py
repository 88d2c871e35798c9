"""Records the examples from an installation of its own and writes them to the API's folder."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from api.docs.examples import FILE
from ops.reference.record import record
from ops.supervision.running_installation import RunningInstallation


def main() -> None:
    """Record and write."""
    with TemporaryDirectory(prefix="stanchion-reference-") as folder:
        var_dir = Path(folder) / "var"
        with RunningInstallation(var_dir, {"STANCHION_AUTO_CLEAR_SECONDS": "0"}) as found:
            owner = next(
                each for each in found["tenants"] if (each["mode"], each["role"]) == ("test", "owner")
            )
            examples = record(found["base_url"], owner, var_dir, found["vision_url"])
    FILE.write_text(json.dumps(examples, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"{len(examples)} examples in {FILE}")


if __name__ == "__main__":
    main()
