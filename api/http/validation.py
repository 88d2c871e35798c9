"""Validation errors as problem bodies: a pointer, a stable code and a sentence for each broken rule, and no
rejected value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from api.http.attribute_docstrings import Described
from api.http.problems import FieldError, Refusal

M = TypeVar("M", bound=BaseModel)
Place = tuple[int | str, ...]

ERRORS_MAX: Final = 20
"""Broken rules named in one answer."""

_CODES: Final = {
    "missing": "missing",
    "extra_forbidden": "unknown_field",
    "literal_error": "not_allowed",
    "union_tag_invalid": "not_allowed",
    "union_tag_not_found": "missing",
    "string_pattern_mismatch": "format",
    "string_too_short": "length",
    "string_too_long": "length",
    "too_short": "length",
    "too_long": "length",
    "greater_than": "range",
    "greater_than_equal": "range",
    "less_than": "range",
    "less_than_equal": "range",
}
_DETAILS: Final = {
    "missing": "This member is required.",
    "unknown_field": "There is no such member.",
    "type": "The value is of the wrong JSON type.",
    "format": "The value does not have the required form.",
}
# Pointers show unknown member names, so that a typing error can be found, unless the name may be a value.
SHOWABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
HIDDEN: Final = "?"
"""Stands in pointers for a name that is not ``SHOWABLE``."""


class Input(Described):
    """Base of request models: strict types, no unknown members. A model is built at its first use."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        # FastAPI's validators of a complete model are built at once, as FastAPI expects.
        cls.model_config["defer_build"] = False


class View(Described):
    """Base of response models. They serve the description; responses are made from rows and owners'
    replies."""

    model_config = ConfigDict(defer_build=True)


def broken(code: str, detail: str, at: str = "") -> PydanticCustomError:
    """For validators: a rule with its stable code and a sentence that does not hold the value; ``at`` is a
    pointer from the validated object to the member at fault.
    """
    return PydanticCustomError("rule", "{detail}", {"code": code, "detail": detail, "at": at})


def validated(model: type[M], value: Any) -> M:
    """``value`` as a ``model``. Raises ``Refusal`` ``validation-failed`` that names every broken rule."""
    try:
        return model.model_validate(value)
    except ValidationError as invalid:
        errors = invalid.errors(include_url=False, include_input=False)
        raise Refusal("validation-failed", errors=field_errors(errors, value)) from None


def field_errors(errors: Sequence[ErrorDetails], value: Any, *, skip: int = 0) -> list[FieldError]:
    """The first ``ERRORS_MAX`` of pydantic's ``errors`` about ``value``. ``skip``: the number of leading
    parts of each error's place that lead to ``value``."""
    return [_field_error(error, error["loc"][skip:], value) for error in errors[:ERRORS_MAX]]


def _field_error(error: ErrorDetails, place: Place, value: Any) -> FieldError:
    kind = error["type"]
    pointer = _pointer(place, value, missing=kind == "missing")
    if kind == "rule":
        context = error["ctx"]
        return FieldError(pointer + context["at"], context["code"], context["detail"])
    code = _CODES.get(kind, "type" if kind.endswith("_type") else "invalid")
    if kind.startswith("union_tag"):
        # Pydantic quotes the name of the member that chooses the model.
        pointer += "/" + error["ctx"]["discriminator"].strip("'")
    return FieldError(pointer, code, _detail(error, code))


def _detail(error: ErrorDetails, code: str) -> str:
    """A sentence made from the rule alone: pydantic's own may repeat the input."""
    context = error.get("ctx", {})
    allowed = context.get("expected") or context.get("expected_tags")
    if code == "not_allowed" and allowed:
        return f"The value must be one of {allowed}."
    if code in {"length", "range"}:
        return error["msg"].replace("Input", "The value") + "."
    return _DETAILS.get(code, "The value is not valid.")


def _pointer(place: Place, value: Any, *, missing: bool) -> str:
    """``place`` as a JSON pointer, without the parts that are not in ``value`` (the tags of unions); the name
    of a ``missing`` member stays.
    """
    parts: list[str] = []
    at = value
    for position, part in enumerate(place, start=1):
        is_last = position == len(place)
        if isinstance(at, list) and isinstance(part, int):
            at = at[part] if part < len(at) else None
            parts.append(str(part))
        elif isinstance(at, dict) and part in at:
            at = at[part]
            parts.append(str(part) if SHOWABLE.fullmatch(str(part)) else HIDDEN)
        elif is_last and missing:
            parts.append(str(part))
    return "".join(f"/{part}" for part in parts)
