"""The behaviours of Stanchion's own decision endpoints: ``stanchion decide``, the demo and chaos."""

from __future__ import annotations

from typing import Final, Literal, get_args

Behaviour = Literal["approve", "decline", "slow", "garbage", "down"]
BEHAVIOURS: Final[tuple[Behaviour, ...]] = get_args(Behaviour)
