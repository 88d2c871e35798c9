"""Later messages about a sale that the second run decided otherwise: as its merchant would have sent them.

- A sale that only the recorded run approved has no presentments, reversals or completions.
- A sale that the second run approved for less is presented for less.
- A sale of which the second run approved more is presented with the difference, if presentments are assumed.
"""

from __future__ import annotations

from collections.abc import Container

import msgspec

from engine.cards.authorization import Authorization
from engine.cards.authorization_index import AuthorizationIndex
from engine.commands import Advise, Present, Reverse, reference_of_id


def is_unsent(original: Authorization | None, unsent: Container[str]) -> bool:
    """Whether messages about ``original`` are not sent in the second run."""
    return original is not None and original.id in unsent


def adapted(
    command: Reverse | Present | Advise,
    original: Authorization | None,
    known: AuthorizationIndex,
    unsent: set[str],
    assume_presented: bool,
) -> Reverse | Present | Advise | None:
    """``command`` in the second run; ``None`` if it is not sent there.

    ``original`` is the authorization that it is about in the recorded run, before it was applied; ``known``
    are the authorizations of the second run, ``unsent`` those that only the recorded run approved. An advice
    that the network approved one of them makes it a sale in both runs.
    """
    if original is None:
        return command
    if original.id in unsent:
        if not (isinstance(command, Advise) and command.stand_in):
            return None
        unsent.discard(original.id)
        return command
    reference = reference_of_id(original.id)
    if not isinstance(command, Present) or command.kind == "refund" or reference not in known:
        return command
    return _presentment(command, original, known[reference], assume_presented)


def _presentment(
    command: Present, original: Authorization, twin: Authorization, assume_presented: bool
) -> Present | None:
    """The presentment of a sale of which the second run approved another amount."""
    more_minor = twin.approved_minor - original.approved_minor
    if original.decline_reason is not None or not more_minor:
        return command
    if more_minor > 0:
        added_minor = more_minor if assume_presented and command.final else 0
        return _of_amount(command, command.amount_minor + added_minor)
    # A presentment above the approved amount, as with a tip, exceeds the smaller amount as much.
    exceeding_minor = max(0, command.amount_minor - _open_minor(original))
    due_minor = min(command.amount_minor - exceeding_minor, _open_minor(twin))
    return _of_amount(command, due_minor + exceeding_minor) if due_minor + exceeding_minor else None


def _open_minor(authorization: Authorization) -> int:
    """The approved amount that is neither reversed nor presented."""
    approved_minor = authorization.approved_minor - authorization.reversed_minor
    return max(0, approved_minor - authorization.cleared_minor)


def _of_amount(command: Present, amount_minor: int) -> Present:
    return msgspec.structs.replace(command, amount_minor=amount_minor)
