"""Descriptions of members come from the docstrings below them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from api.http.attribute_docstrings import Described
from api.http.validation import View


class Base(Described):
    city: str
    """Where the merchant is."""
    country: str


class Derived(Base):
    country: str
    """Two letters
    of ISO 3166-1."""
    mcc: Annotated[str, Field(description="Said by the field.")]
    """Not used."""

    class Inner(Described):
        note: str = ""
        """Of a nested class."""


class Answer(View):
    id: str
    """Not read before the model is used."""


def described(model: type[Described]) -> dict[str, str | None]:
    properties = model.model_json_schema()["properties"]
    return {name: schema.get("description") for name, schema in properties.items()}


def test_members_of_the_class_and_of_its_bases_are_described() -> None:
    assert described(Derived) == {
        "city": "Where the merchant is.",
        "country": "Two letters\nof ISO 3166-1.",
        "mcc": "Said by the field.",
    }
    assert described(Base) == {"city": "Where the merchant is.", "country": None}


def test_nested_and_local_classes_are_described() -> None:
    class Local(Described):
        amount: int
        """In minor units."""

    assert described(Derived.Inner) == {"note": "Of a nested class."}
    assert described(Local) == {"amount": "In minor units."}


def test_answers_are_described_when_they_are_first_used() -> None:
    assert Answer.__pydantic_fields__["id"].description is None
    assert described(Answer) == {"id": "Not read before the model is used."}


def test_class_without_source_has_no_descriptions() -> None:
    space: dict[str, object] = {"__name__": "nowhere", "Described": Described}
    exec("class Bare(Described):\n    x: int\n    'Lost.'", space)
    bare = space["Bare"]
    assert isinstance(bare, type)
    assert issubclass(bare, Described)
    assert described(bare) == {"x": None}
