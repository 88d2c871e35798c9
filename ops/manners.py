"""The ways in which a decision endpoint of ours can answer."""

from __future__ import annotations

from typing import Final, Literal, get_args

Manner = Literal["approve", "decline", "slow", "garbage", "down"]
MANNERS: Final[tuple[Manner, ...]] = get_args(Manner)
