"""Execute the reads that decide without an effect: dry runs and headroom.

They see the card, its account and the programme as the next authorization would: the owner's tentative state.
Their reply leaves after the commit of what they saw, as every reply does.
"""

from __future__ import annotations

from engine.authorization.authorizing import present_inputs
from engine.authorization.executed import CommandContext, Executed
from engine.commands import Evaluate, ReadHeadroom
from engine.decision.dry_run import dry_run, dry_run_view, headroom_view
from engine.decision.headroom import headroom
from engine.replies import Done


def evaluate(command: Evaluate, context: CommandContext, now_ms: int) -> Executed:
    """The decision on ``command.request`` at ``now_ms``, which is not made."""
    inputs = present_inputs(context, now_ms, command.request)
    run = dry_run(command.request, inputs, context.rules)
    return Executed(Done(200, dry_run_view(command.card_id, inputs, run)))


def read_headroom(command: ReadHeadroom, context: CommandContext, now_ms: int) -> Executed:
    """The largest amount of ``command.request`` that the platform approves at ``now_ms``."""
    inputs = present_inputs(context, now_ms, command.request)
    found = headroom(command.request, inputs, context.rules)
    return Executed(Done(200, headroom_view(command.card_id, inputs, found)))
