"""The fields of a cardholder, and the members of the API that they fill."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from api.console.editor.names import group, text

REQUIRED: Final = ("given_name", "family_name", "email")
OPTIONAL: Final = ("phone", "date_of_birth", "external_ref")
ADDRESS: Final = ("line1", "line2", "city", "postcode", "country")
EMPTY: Final[Mapping[str, Any]] = {
    **dict.fromkeys((*REQUIRED, *OPTIONAL), ""),
    "address": dict.fromkeys(ADDRESS, ""),
}


def person_of(form: Mapping[str, Any]) -> dict[str, Any]:
    """The members that a form holds; optional ones that are not filled in are ``None``."""
    optional = {name: text(form, name) or None for name in OPTIONAL}
    return {name: text(form, name) for name in REQUIRED} | optional | {"address": _address_of(form)}


def person_form(cardholder: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a cardholder of the API."""
    address = cardholder["address"] or {}
    return {
        **{name: cardholder[name] or "" for name in (*REQUIRED, *OPTIONAL)},
        "address": {name: address.get(name) or "" for name in ADDRESS},
    }


def person_fields(form: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a form as they were sent; those that are missing are empty."""
    return {**EMPTY, **form, "address": EMPTY["address"] | group(form, "address")}


def _address_of(form: Mapping[str, Any]) -> dict[str, Any] | None:
    fields = group(form, "address")
    given = {name: text(fields, name) for name in ADDRESS if text(fields, name)}
    if "country" in given:
        given["country"] = given["country"].upper()
    # Without its other members, a second line would be dropped in silence: the API names what is missing.
    return given or None
