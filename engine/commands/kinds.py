"""Kinds of commands, and the owner that executes each."""

from __future__ import annotations

from typing import Final

from engine.commands.authorizations import Advise, Authorize, Expire, Present, Reverse
from engine.commands.cards import (
    ChangeCard,
    ChangeCardRule,
    CreateCard,
    CreateCardRule,
    DeclareBalance,
    ReplaceCard,
    SetCardholderStatus,
)
from engine.commands.programmes import (
    ChangeProgramme,
    ChangeProgrammeRule,
    CreateProgramme,
    CreateProgrammeRule,
    EndOutage,
    GrantStandIns,
    PreviewStandIn,
    SetStandInPolicy,
)
from engine.commands.reads import Evaluate, ReadBalance, ReadHeadroom
from engine.commands.transfers import Load, ReverseTransfer, Transfer

CardCommand = (
    Authorize
    | Reverse
    | Present
    | Advise
    | Expire
    | CreateCard
    | ReplaceCard
    | ChangeCard
    | SetCardholderStatus
    | CreateCardRule
    | ChangeCardRule
    | DeclareBalance
    | Load
    | Transfer
    | ReverseTransfer
    | ReadBalance
    | Evaluate
    | ReadHeadroom
)
ProgrammeChange = (
    ChangeProgramme
    | SetStandInPolicy
    | CreateProgrammeRule
    | ChangeProgrammeRule
    | GrantStandIns
    | EndOutage
    | PreviewStandIn
)
"""Changes of an existing programme, and the preview of one."""
ProgrammeCommand = CreateProgramme | ProgrammeChange
Command = CardCommand | ProgrammeCommand
AuthorizationCommand = Authorize | Reverse | Present | Advise | Expire
"""Commands that can name an earlier authorization."""

# The same as tuples: ``isinstance`` is faster with them, and runs for every command.
AUTHORIZATION_COMMANDS: Final = (Authorize, Reverse, Present, Advise, Expire)
PROGRAMME_CHANGES: Final = (
    ChangeProgramme,
    SetStandInPolicy,
    CreateProgrammeRule,
    ChangeProgrammeRule,
    GrantStandIns,
    EndOutage,
    PreviewStandIn,
)
PROGRAMME_COMMANDS: Final = (CreateProgramme, *PROGRAMME_CHANGES)
DRY_RUNS: Final = (Evaluate, ReadHeadroom)
"""Commands that decide without an effect."""
READS: Final = (ReadBalance, *DRY_RUNS, PreviewStandIn)
"""Commands that change nothing."""
_CREATIONS: Final = (CreateCard, CreateProgramme)


def target_of(command: Command) -> str:
    """The id of the card or programme whose owner executes ``command``."""
    if isinstance(command, Authorize):
        # The most frequent command first.
        return command.card_id
    if isinstance(command, _CREATIONS):
        return command.id
    return command.programme_id if isinstance(command, PROGRAMME_CHANGES) else command.card_id
