"""Commands in the form of release 0.1.0, whose hosts cannot decode some values of later releases.

While an upgrade goes back, edges of this release send commands to hosts of 0.1.0. The form has the values
that an edge of 0.1.0 sends for the same message.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from engine.commands.authorizations import Authorize
from engine.commands.kinds import Command

_CVV2: Final[dict[str, Literal["absent"]]] = {"missing": "absent"}
_AUTHENTICATION: Final[dict[str, Literal["valid", "invalid"]]] = {"present": "valid", "malformed": "invalid"}


def as_earlier(command: Command) -> Command:
    """``command`` without values of its fields that release 0.1.0 does not know. It ignores unknown
    fields."""
    if not isinstance(command, Authorize):
        return command
    return msgspec.structs.replace(
        command,
        cvv2=_CVV2.get(command.cvv2, command.cvv2),
        authentication=_AUTHENTICATION.get(command.authentication, command.authentication),
    )
