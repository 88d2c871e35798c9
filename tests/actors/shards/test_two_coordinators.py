"""Two coordinators that both lead, as after a pause of one of them, cost service and never money."""

from __future__ import annotations

from tests.actors.shards.test_simulation import CHECKS
from tests.support.actors.shards.rival_coordinators import RivalInstallation
from tests.support.actors.shards.virtual_time import run

SEEDS = 12


def lived(seed: int) -> RivalInstallation:
    async def main() -> RivalInstallation:
        installation = RivalInstallation(seed)
        await installation.live()
        return installation

    return run(main())


def test_replies_and_books_are_true_when_both_coordinators_lead() -> None:
    moves = 0
    for seed in range(SEEDS):
        try:
            installation = lived(seed)
            for check in CHECKS:
                check(installation)
        except BaseException as failure:
            failure.add_note(f"seed {seed}")
            raise
        moves += installation.moves
    assert moves > 10 * SEEDS
