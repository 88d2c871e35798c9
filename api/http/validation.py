"""What callers send, checked against a model: strict types, no unknown members, every broken rule named, no
value repeated.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from api.http.problems import FieldError, Refusal

M = TypeVar("M", bound=BaseModel)

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
# Names are shown back so that a slip can be found; a name that could be anything else than a name is not.
_SHOWABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class Input(BaseModel):
    """The base of everything that is read from a caller."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True)


class View(BaseModel):
    """The base of everything that is shown: models for the description; answers are made from rows and
    owners' replies.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)


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
        errors = invalid.errors(include_url=False, include_input=False)[:ERRORS_MAX]
        raise Refusal("validation-failed", errors=[_field_error(error, value) for error in errors]) from None


def _field_error(error: ErrorDetails, value: Any) -> FieldError:
    kind = error["type"]
    if kind == "rule":
        context = error["ctx"]
        return FieldError(_pointer(error, value) + context["at"], context["code"], context["detail"])
    code = _CODES.get(kind, "type" if kind.endswith("_type") else "invalid")
    pointer = _pointer(error, value) + ("/kind" if kind.startswith("union_tag") else "")
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


def _pointer(error: ErrorDetails, value: Any) -> str:
    """The error's place as a JSON pointer; parts that are not in the input (the tags of unions) are left
    out.
    """
    parts: list[str] = []
    at = value
    for position, part in enumerate(error["loc"], start=1):
        is_last = position == len(error["loc"])
        if isinstance(at, list) and isinstance(part, int):
            at = at[part] if part < len(at) else None
            parts.append(str(part))
        elif isinstance(at, dict) and part in at:
            at = at[part]
            parts.append(str(part) if _SHOWABLE.fullmatch(str(part)) else "?")
        elif is_last and error["type"] == "missing":
            parts.append(str(part))
    return "".join(f"/{part}" for part in parts)
