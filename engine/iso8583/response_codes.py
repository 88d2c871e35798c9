"""DE39 of a profile: the codes that the engine decides with, and the codes that a network reads.

The engine uses the two-character codes of the 1987 version (``engine.decline``). A profile may replace the
code of a decline reason, or every code; the 1993 version has action codes of three digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.decline import APPROVED, RESPONSE_CODES
from engine.iso8583.message_types import Function

ACTION_CODES_1993: Final = {
    "00": "000",  # approved
    "10": "002",  # approved for partial amount
    "85": "000",
    "05": "100",  # do not honour
    "12": "902",  # invalid transaction
    "13": "110",  # invalid amount
    "14": "111",  # invalid card number
    "21": "921",  # no action
    "30": "904",  # format error
    "31": "905",  # acquirer not supported by switch
    "40": "115",  # requested function not supported
    "41": "208",  # lost card
    "43": "209",  # stolen card
    "46": "118",  # no card record
    "51": "116",  # not sufficient funds
    "54": "101",  # expired card
    "55": "117",  # incorrect personal identification number
    "57": "119",  # transaction not permitted to cardholder
    "58": "120",  # transaction not permitted to terminal
    "59": "102",  # suspected fraud
    "61": "121",  # exceeds withdrawal amount limit
    "62": "104",  # restricted card
    "63": "122",  # security violation
    "65": "123",  # exceeds withdrawal frequency limit
    "75": "106",  # allowable PIN tries exceeded
    "78": "125",  # card not effective
    "86": "115",
    "91": "911",  # card issuer timed out
    "94": "913",  # duplicate transmission
    "96": "909",  # system malfunction
    "1A": "180",  # for private use: additional authentication required
    "N7": "129",  # suspected counterfeit card
}
"""Action codes of ISO 8583:1993 by the code of the 1987 version."""

OTHER_CODES: Final = ("21", "31", "40", "58")
"""Codes of answers that are no decline reasons: no action, foreign institution, unsupported function, message
class that a link may not send."""

_ACTION_CODE_CHARS: Final = 3

ACCEPTED_1993: Final[Mapping[Function, str]] = {"reversal": "400", "network_management": "800"}
"""The 1993 version has acceptances of its own for these functions."""


class ResponseCodes:
    """``by_code``: the profile's code for each code of the engine, unless they are equal. ``by_reason``: the
    code for a decline reason, which precedes. ``accepted``: the code for ``00`` of a function."""

    def __init__(
        self,
        by_code: Mapping[str, str] | None = None,
        by_reason: Mapping[str, str] | None = None,
        accepted: Mapping[Function, str] | None = None,
    ) -> None:
        self._by_code = dict(by_code or {})
        self._by_reason = dict(by_reason or {})
        self._accepted = dict(accepted or {})
        shared = list(RESPONSE_CODES.values())
        for reason, own in self._by_reason.items():
            # The edge refuses without a decision, by the code alone.
            if shared.count(RESPONSE_CODES[reason]) == 1:
                self._by_code[RESPONSE_CODES[reason]] = own
        self.unchanged = not (self._by_code or self._by_reason or self._accepted)
        self._canonical: dict[str, str] = dict.fromkeys(self._accepted.values(), APPROVED)
        for code, own in self._by_code.items():
            self._canonical.setdefault(own, code)
        for reason, own in self._by_reason.items():
            self._canonical.setdefault(own, RESPONSE_CODES[reason])

    @property
    def codes(self) -> set[str]:
        """Every code that the profile writes in place of the engine's."""
        return {*self._by_code.values(), *self._by_reason.values(), *self._accepted.values()}

    def own(self, response_code: str, function: Function | None, reason: str | None = None) -> str:
        """The profile's code for ``response_code`` in the answer to a ``function``."""
        if self.unchanged:
            return response_code
        if reason is not None and reason in self._by_reason:
            return self._by_reason[reason]
        if response_code == APPROVED and function in self._accepted:
            return self._accepted[function]
        return self._by_code.get(response_code, response_code)

    def canonical(self, own: str) -> str:
        """The engine's code for a code of the profile. Codes that the profile merges give the first of
        them; every other action code of the range of approvals is an approval."""
        if self.unchanged:
            return own
        known = self._canonical.get(own)
        if known is None:
            return APPROVED if len(own) == _ACTION_CODE_CHARS and own[0] == "0" else own
        return known
