"""The drill of upgrades: what it expects of the earlier release."""

from __future__ import annotations

from pathlib import Path

from ops.chaos.upgrades import ROOT, migrations_of


def test_releases_with_the_same_migrations_are_recognized(tmp_path: Path) -> None:
    folder = tmp_path / "ops/migrations"
    folder.mkdir(parents=True)
    for path in (ROOT / "ops/migrations").glob("*.sql"):
        (folder / path.name).write_bytes(path.read_bytes())
    assert migrations_of(tmp_path) == migrations_of(ROOT)
    max(folder.glob("*.sql")).unlink()
    assert len(migrations_of(tmp_path)) == len(migrations_of(ROOT)) - 1
