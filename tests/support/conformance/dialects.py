"""The wire dialects of the shipped profiles as an independent network speaks them: pyiso8583 with
specifications of its own, and a translation of the 1993 version. Without code of the platform.

Tests write documents in the 1987 version (``Document``); a dialect sends and receives them in its own form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final, Literal

import iso8583
from iso8583.specs import default_ascii

Document = dict[str, str]
Spec = Mapping[str, Mapping[str, Any]]

_DIGITS_1987: Final = frozenset({*range(2, 28), 32, 33, 49, 50, 51, 53, *range(66, 91), 99, 100})
_TRACKS: Final = {35, 36}
_BYTES_1987: Final = frozenset({52, 55, 64, 96, 128})

# Sizes of ISO 8583:1993 as published; the first column is the width of the length prefix.
_SIZES_1993: Final = {
    0: {
        3: 6, 4: 12, 5: 12, 6: 12, 7: 10, 8: 8, 9: 8, 10: 8, 11: 6, 12: 12, 13: 4, 14: 4, 15: 6, 16: 4, 17: 4,
        18: 4, 19: 3, 20: 3, 21: 3, 22: 12, 23: 3, 24: 3, 25: 4, 26: 4, 27: 1, 28: 6, 29: 3, 30: 24, 37: 12,
        38: 6, 39: 3, 40: 3, 41: 8, 42: 15, 49: 3, 50: 3, 51: 3, 52: 16, 57: 3, 64: 16, 67: 2, 68: 3, 69: 3,
        70: 3, 71: 8, 73: 6, **dict.fromkeys(range(74, 86), 10), **dict.fromkeys(range(86, 90), 16), 90: 10,
        91: 3, 92: 3, 97: 17, 98: 25, 105: 16, 106: 16, 107: 10, 108: 10, 128: 16,
    },
    2: {
        2: 19, 31: 99, 32: 11, 33: 11, 34: 28, 35: 37, 43: 99, 44: 99, 45: 76, 53: 96, 56: 35, 58: 11, 93: 11,
        94: 11, 95: 99, 99: 11, 100: 11, 101: 17, 102: 28, 103: 28, 109: 84, 110: 84,
    },
    3: {
        36: 104, 46: 204, 47: 999, 48: 999, 54: 120, 55: 510, 59: 999, 60: 999, 61: 999, 62: 999, 63: 999,
        66: 204, 72: 999, 96: 998, 104: 100, **dict.fromkeys(range(111, 128), 999),
    },
}  # fmt: skip


def _binary() -> Spec:
    """Packed digits and lengths, raw bytes, binary bitmaps; text in ASCII."""
    spec: dict[str, dict[str, Any]] = deepcopy(dict(default_ascii))
    for key in ("p", "1"):
        spec[key] |= {"data_enc": "b", "max_len": 8}
    spec["t"] |= {"data_enc": "b", "max_len": 2}
    for number in range(2, 129):
        entry = spec[str(number)]
        entry |= {"len_enc": "bcd", "len_type": (entry["len_type"] + 1) // 2}
        if number in _BYTES_1987:
            entry |= {"data_enc": "b", "max_len": entry["max_len"] // 2}
        elif number in _DIGITS_1987 | _TRACKS:
            entry |= {"data_enc": "b", "len_count": "nibbles", "left_pad": "0"}
    return spec


def _ebcdic() -> Spec:
    """Text, digits and lengths in EBCDIC (code page 37), raw bytes, binary bitmaps."""
    spec: dict[str, dict[str, Any]] = deepcopy(dict(default_ascii))
    for key in ("t", *map(str, range(2, 129))):
        spec[key] |= {"data_enc": "cp037", "len_enc": "cp037"}
    for key in ("p", "1"):
        spec[key] |= {"data_enc": "b", "max_len": 8}
    for number in _BYTES_1987:
        entry = spec[str(number)]
        entry |= {"data_enc": "b", "max_len": entry["max_len"] // 2}
    return spec


def _ascii_1993() -> Spec:
    spec = {key: dict(default_ascii[key]) for key in ("h", "t", "p", "1")}
    for prefix, sizes in _SIZES_1993.items():
        for number, size in sizes.items():
            spec[str(number)] = {
                "data_enc": "ascii",
                "len_enc": "ascii",
                "len_type": prefix,
                "max_len": size,
                "desc": str(number),
            }
    return spec


# The 1993 version -------------------------------------------------------------------------------------------

_ACTIONS: Final = {
    "00": "000", "10": "002", "05": "100", "12": "902", "14": "111", "30": "904", "51": "116", "54": "101",
    "57": "119", "59": "102", "61": "121", "62": "104", "63": "122", "65": "123", "86": "115", "91": "911",
    "94": "913", "96": "909", "N7": "129",
}  # fmt: skip
_CODES: Final = {action: code for code, action in _ACTIONS.items()} | {"400": "00", "800": "00"}
_POINTS_OF_SERVICE: Final = {"05": "000001500000", "90": "000001200000", "07": "000001A00000", "00": "0" * 12}
_PRESENCES: Final = {"59": ("5", "6"), "08": ("3", "6")}
_COUNTRIES: Final = {"IE": "IRL", "GB": "GBR", "US": "USA"}
_YEAR: Final = "26"
_CHANGED: Final = {"12", "13", "18", "22", "25", "39", "43", "70", "90", "95"}
"""Elements of the 1987 version that the 1993 version has in another form."""


def _to_1993(document: Document) -> Document:
    mti, fields = document["t"], {key: value for key, value in document.items() if key != "t"}
    own: Document = {"t": f"1{mti[1:]}" if mti[1] != "8" else f"18{mti[2]}{int(mti[3]) + 4}"}
    own |= {key: fields.pop(key) for key in list(fields) if key not in _CHANGED}
    if "7" in own:
        own["12"] = _YEAR + own["7"]
    if "18" in fields:
        own["26"] = fields["18"]
    if "22" in fields:
        presence, mode = _PRESENCES.get(fields.get("25", ""), ("0", ""))
        code = _POINTS_OF_SERVICE.get(fields["22"][:2], "000001600000")
        own["22"] = code if not mode else f"0000{presence}0{mode}00000"
    if "39" in fields:
        own["39"] = _ACTIONS[fields["39"]]
    if "43" in fields:
        text = fields["43"]
        country = _COUNTRIES.get(text[-2:], text[-2:])
        own["43"] = f"{text[:23].rstrip()}\\\\{text[23:38].rstrip()}\\{country:>16}"
    if "90" in fields:
        text = fields["90"]
        acquirer = text[20:31].lstrip("0")
        own["56"] = f"1{text[1:10]}{_YEAR}{text[10:20]}{len(acquirer):02d}{acquirer}"
    if "95" in fields:
        own["30"] = document["4"] + "0" * 12
        own["4"] = fields["95"][:12]
        own["24"] = "401"
    if "70" in fields:
        own["24"] = {"001": "801", "002": "802", "301": "831"}[fields["70"]]
    return own


def _from_1993(own: Document) -> Document:
    document = own | {"t": f"0{own['t'][1:3]}0", "39": _CODES[own["39"]]}
    if (own["t"], own["39"], own.get("4")) == ("1110", "000", "0" * 12):
        document["39"] = "85"  # the version has no code of its own for a verified card
    if "12" in own:
        document |= {"12": own["12"][6:], "13": own["12"][2:6]}
    if "24" in own:
        codes = {"801": "001", "802": "002", "831": "301"}
        if own["24"] in codes:
            document["70"] = codes[own["24"]]
        del document["24"]
    return document


@dataclass(frozen=True)
class Dialect:
    """Encodes and decodes the documents of one network."""

    name: str
    spec: Spec
    digits: frozenset[int] = frozenset()
    """Fields that hold only digits."""
    bytes_: frozenset[int] = frozenset()
    """Fields that hold bytes."""
    to_own: Callable[[Document], Document] = dict
    from_own: Callable[[Document], Document] = dict

    def kind(self, number: int) -> Literal["digits", "track", "bytes", "text"]:
        """The characters that a field may hold."""
        if number in _TRACKS:
            return "track"
        if number in self.bytes_:
            return "bytes"
        return "digits" if number in self.digits else "text"

    def encode(self, document: Document) -> bytes:
        """The payload of ``document``."""
        encoded, _ = iso8583.encode(dict(self.to_own(document)), self.spec)
        return bytes(encoded)

    def decode(self, payload: bytes) -> Document:
        """The document in ``payload``, an answer."""
        document, _ = iso8583.decode(payload, self.spec)
        return self.from_own({key: value for key, value in document.items() if key not in ("h", "p", "1")})


DIALECTS: Final = {
    each.name: each
    for each in (
        Dialect("iso87-ascii", default_ascii, _DIGITS_1987, _BYTES_1987),
        Dialect("iso87-binary", _binary(), _DIGITS_1987, _BYTES_1987),
        Dialect("iso87-ebcdic", _ebcdic(), _DIGITS_1987, _BYTES_1987),
        Dialect(
            "iso93-ascii",
            _ascii_1993(),
            frozenset({3, 4, 11, 12}),
            frozenset({52, 53, 55, 64, 96, 128}),
            _to_1993,
            _from_1993,
        ),
    )
}
ASCII: Final = DIALECTS["iso87-ascii"]
