"""Request bodies and filters of KYC checks."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Final, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from api.http.fields import Country, Day, Id, Text20, Text100, Text200, example
from api.http.problems import FieldError, Refusal
from api.http.validation import Input, broken
from api.operations.pagination import PageQuery
from engine.kyc.case import DOCUMENT_TYPE, ReviewOutcome
from engine.kyc.facts import Reason
from engine.kyc.flows import INPUTS, DocumentType, Flow
from engine.kyc.states import State
from engine.mrz.zone import Fault, read_zone

MRZ_CHARACTERS_MAX: Final = 96

AwaitedInput = Literal[
    "given_name",
    "family_name",
    "date_of_birth",
    "nationality",
    "address_line1",
    "address_postcode",
    "address_country",
    "document_type",
    "document_number",
    "document_expiry",
    "document_issuing_state",
    "document_evidence",
    "selfie",
]


def _zone(text: str) -> str:
    read = read_zone(text)
    if isinstance(read, Fault):
        raise broken("length" if read is Fault.LENGTH else "invalid", read.value)
    return text


DocumentNumber = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 /.-]{0,29}$"),
    example("L898902C3"),
]
MachineReadableZone = Annotated[
    str,
    StringConstraints(max_length=MRZ_CHARACTERS_MAX),
    AfterValidator(_zone),
    example("P<UTOERIKSSON<<ANNA<MARIA<<<<<<<<<<<<<<<<<<<\nL898902C36UTO7408122F1204159ZE184226B<<<<<10"),
]


class CheckInput(Input):
    """A new check."""

    cardholder_id: Id
    flow_key: Flow
    """The inputs it requires. `basic`: names, date of birth, nationality and address. `document`: also a
    document. `full`: also pictures."""


class Submission(Input):
    """Data of the applicant; at least one member. A later value replaces an earlier one."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    given_name: Annotated[Text100, example("Ada")] = ""
    family_name: Annotated[Text100, example("Lovelace")] = ""
    date_of_birth: Day = ""
    nationality: Country = ""
    """ISO 3166-1 alpha-2."""
    document_type: DocumentType = "passport"
    document_number: DocumentNumber = ""
    document_expiry: Annotated[Day, example("2035-01-31")] = ""
    document_issuing_state: Country = ""
    document_mrz: MachineReadableZone = ""
    """The machine-readable zone (ICAO Doc 9303: TD1, TD2 or TD3), its rows joined or separated by line feeds.
    Its check digits are verified. It replaces the document's number, expiry and issuing state."""
    address_line1: Annotated[Text200, example("12 Harbour Street")] = ""
    address_postcode: Annotated[Text20, example("D02 XY45")] = ""
    address_country: Country = ""

    @model_validator(mode="after")
    def _require_member(self) -> Submission:
        if not self.model_fields_set:
            raise broken("missing", "Name at least one member.")
        return self

    @property
    def values(self) -> dict[str, bytes]:
        """The values for custody, by field."""
        names = self.model_fields_set - {DOCUMENT_TYPE}
        return {name: str(getattr(self, name)).encode() for name in sorted(names)}

    @property
    def chosen_type(self) -> str | None:
        """The document type, if it was given."""
        return self.document_type if DOCUMENT_TYPE in self.model_fields_set else None


class Review(Input):
    """A person's decision on a check in review."""

    outcome: ReviewOutcome
    reason_codes: Annotated[list[Reason], Field(max_length=10, default_factory=list)]
    """Not allowed with `passed`. If left out, a failed check keeps the reasons that led to the review."""
    awaiting: Annotated[list[AwaitedInput], Field(max_length=len(INPUTS), default_factory=list)]
    """The inputs to request again, with `more_input` only. Their earlier values are deleted."""

    @model_validator(mode="after")
    def _fitting(self) -> Review:
        if self.outcome == "more_input" and not self.awaiting:
            raise broken("missing", "Name the inputs to request again.", "/awaiting")
        if self.outcome != "more_input" and self.awaiting:
            raise broken(
                "not_allowed",
                "Inputs are requested with the outcome more_input only.",
                "/awaiting",
            )
        if self.outcome == "passed" and self.reason_codes:
            raise broken("not_allowed", "A passed check has no reasons.", "/reason_codes")
        return self


class CaptureSessionInput(Input):
    """A new capture session."""

    kind: Literal["flow", "single"]
    """`flow`: the applicant chooses the document's type and sends both pictures. `single`: the type is given
    here or was submitted, and the applicant only sends pictures."""
    document_type: DocumentType | None = None


class ChecksQuery(PageQuery):
    """Filters of the list."""

    cardholder_id: Id | None = None
    state: State | None = None


def require_possible(given: Submission, today: date) -> None:
    """Validate dates against ``today``. Raises ``Refusal`` ``validation-failed``."""
    if given.date_of_birth and date.fromisoformat(given.date_of_birth) > today:
        wrong = FieldError("/date_of_birth", "range", "The value must not be in the future.")
        raise Refusal("validation-failed", errors=[wrong])
