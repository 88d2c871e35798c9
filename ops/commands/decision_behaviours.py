"""The ways in which a decision endpoint of ours can answer."""

from __future__ import annotations

from typing import Final, Literal, get_args

Behaviour = Literal["approve", "decline", "slow", "garbage", "down"]
BEHAVIOURS: Final[tuple[Behaviour, ...]] = get_args(Behaviour)
