"""Programmes: created and changed by their owner, read from PostgreSQL."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Final, Literal

import asyncpg
import msgspec
from fastapi import Query
from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, model_validator
from starlette.responses import Response

from actors.shards.endpoint import SECRET_PURPOSE
from api.access.tokens import Caller
from api.database.object_metadata import COLUMNS, MEMBERS, About, about_of
from api.database.pool import Connection, fetch_row
from api.http.answers import json_response
from api.http.fields import Currency, HttpsAddress, Id, Instant, Text100, Text255, example
from api.http.problems import FieldError, Refusal, not_found
from api.http.refusals import refusals
from api.http.validation import Input, View, broken
from api.metadata.changes import owner_first
from api.metadata.creation import creating
from api.metadata.inputs import Metadata, MetadataChange, ShownMetadata
from api.metadata.store import change
from api.operations.acts import Change, record_act
from api.operations.call import Call, KeyedCall, OptionallyKeyedCall, PathId, ReadCall, creates
from api.operations.idempotency import once
from api.operations.pagination import PageQuery, page, page_model
from api.operations.route import new_router
from api.operations.submission import once_key, submit
from api.operations.targets import require_callable
from engine.commands import ChangeProgramme, CreateProgramme
from engine.ids import key_of
from engine.instant import zone_names
from engine.kyc.flows import DOCUMENT_TYPES, DocumentType
from engine.limits import (
    DECISION_TIMEOUT_MS_DEFAULT,
    DECISION_TIMEOUT_MS_MAX,
    DECISION_TIMEOUT_MS_MIN,
    HOLD_EXPIRY_DAYS_DEFAULT,
    HOLD_EXPIRY_DAYS_MAX,
    SECRET_BYTES,
)
from engine.programmes.programme import ProgrammeConfig, programme_view

router = new_router("Programmes")
_config = msgspec.json.Decoder(ProgrammeConfig).decode

_SELECT: Final = f"SELECT r.id::text, r.config, {COLUMNS} FROM programmes r"
_FIND: Final = _SELECT + " WHERE r.id = $1::uuid AND r.tenant_id = $2 AND r.live = $3"


def _zone(name: str) -> str:
    if name not in zone_names():
        raise broken("not_allowed", "The value must be an IANA time zone name, like Europe/Dublin.")
    return name


Zone = Annotated[
    str, StringConstraints(min_length=1, max_length=64), AfterValidator(_zone), example("Europe/Dublin")
]
Name = Annotated[Text100, example("Everyday cards")]
TimeoutMs = Annotated[int, Field(ge=DECISION_TIMEOUT_MS_MIN, le=DECISION_TIMEOUT_MS_MAX)]
ExpiryDays = Annotated[int, Field(ge=1, le=HOLD_EXPIRY_DAYS_MAX)]
KycPolicy = Literal["basic", "document", "full"]
CardRenewal = Literal["off", "virtual", "all"]


def _each_once(types: list[str]) -> list[str]:
    return [name for name in DOCUMENT_TYPES if name in types]


DocumentTypes = Annotated[
    list[DocumentType],
    Field(min_length=1, max_length=len(DOCUMENT_TYPES)),
    AfterValidator(_each_once),
    example(["passport", "national_id"]),
]


class ProgrammeInput(Input):
    """A new programme. ``mode`` says who holds the ledger, ``decisioning`` who decides."""

    name: Name
    currency: Currency
    mode: Literal["managed", "gateway"] = "managed"
    """`gateway`: the programme keeps its own ledger and receives posting instructions; its cards have no
    account here. The mode cannot change later; `gateway` is available only where the installation enables it.
    """
    decisioning: Literal["platform", "delegated"] = "platform"
    decision_url: HttpsAddress | None = None
    decision_timeout_ms: TimeoutMs = DECISION_TIMEOUT_MS_DEFAULT
    timezone: Zone = "UTC"
    """The time zone of the days of the per-day caps."""
    hold_expiry_days: ExpiryDays = HOLD_EXPIRY_DAYS_DEFAULT
    kyc_policy: KycPolicy | None = None
    """The weakest flow allowed in KYC checks of its cardholders."""
    kyc_document_types: Annotated[DocumentTypes, Field(default_factory=lambda: list(DOCUMENT_TYPES))]
    """The document types that its KYC checks accept; by default all."""
    card_renewal: CardRenewal = "virtual"
    """Active cards that are replaced, for the reason `expired`, 45 days before they expire: none, virtual
    ones, or all. The old card ends at once, and a physical replacement starts `unactivated`.
    """
    external_ref: Text255 | None = None
    """The caller's own reference for this programme."""
    metadata: Metadata
    """The caller's own pairs; stored unencrypted."""


class ProgrammeChange(Input):
    """Members of a programme to replace; at least one. Currency and mode cannot change."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    name: Name = ""
    decisioning: Literal["platform", "delegated"] = "platform"
    decision_url: HttpsAddress | None = None
    decision_timeout_ms: TimeoutMs = DECISION_TIMEOUT_MS_DEFAULT
    timezone: Zone = "UTC"
    hold_expiry_days: ExpiryDays = HOLD_EXPIRY_DAYS_DEFAULT
    kyc_policy: KycPolicy | None = None
    kyc_document_types: Annotated[DocumentTypes, Field(default_factory=lambda: list(DOCUMENT_TYPES))]
    card_renewal: CardRenewal = "virtual"
    status: Literal["active", "suspended", "closed"] = "active"
    external_ref: Text255 | None = None
    metadata: MetadataChange | None = None
    """Merged with the stored pairs. A pair with `null` is removed; `null` without an object removes all."""

    @model_validator(mode="after")
    def _require_member(self) -> ProgrammeChange:
        if not self.model_fields_set:
            raise broken("missing", "Name at least one member to change.")
        return self


class ProgrammeView(View):
    """A programme. ``version`` rises by exactly 1 with each change of its configuration, to which
    `external_ref` and `metadata` do not belong."""

    id: Id
    name: str
    currency: Currency
    version: int
    mode: Literal["managed", "gateway"]
    decisioning: Literal["platform", "delegated"]
    decision_url: str | None
    decision_timeout_ms: int
    timezone: str
    hold_expiry_days: int
    kyc_policy: str | None
    kyc_document_types: list[str]
    card_renewal: CardRenewal
    status: Literal["active", "suspended", "closed"]
    created_at: Instant
    updated_at: Instant
    external_ref: str | None
    metadata: ShownMetadata


class NewProgrammeView(ProgrammeView):
    """A programme at its creation. Only this answer contains the secret that signs calls to
    ``decision_url``."""

    decision_secret: str


@router.post(
    "/v1/programs",
    status_code=201,
    response_model=NewProgrammeView,
    responses=refusals("quota-reached", "decision-url-missing", "gateway-not-enabled", "target-refused"),
)
@creates("programmes")
async def create_program(given: ProgrammeInput, call: KeyedCall) -> Response:
    """Create a programme.

    Emits `programme.created`. The answer carries `decision_secret` once; it cannot be read again.
    """
    services = call.services
    if given.mode == "gateway" and not services.settings.enable_gateway:
        raise Refusal("gateway-not-enabled")
    if given.decisioning == "delegated" and given.decision_url is None:
        missing = FieldError("/decision_url", "missing", "A delegated programme needs a decision_url.")
        raise Refusal("decision-url-missing", errors=[missing])
    await require_callable(services, call.caller, given.decision_url, "decision_url")
    programme_id = services.new_id()
    secret = f"decsec_{secrets.token_urlsafe(SECRET_BYTES)}"
    config = ProgrammeConfig(
        id=programme_id,
        tenant_id=call.caller.tenant_id,
        live=call.caller.live,
        **given.model_dump(exclude={*MEMBERS}),
    )
    command = CreateProgramme(
        id=programme_id,
        command_key=key_of(programme_id),
        config=config,
        decision_secret_sealed=services.vault.seal(SECRET_PURPOSE, secret.encode(), programme_id.encode()),
        external_ref=given.external_ref,
        metadata=given.metadata,
    )
    about = About(given.external_ref, given.metadata)
    shown = {"decision_secret": secret} | about.view()
    return await creating(call, "programme", programme_id, about, partial(submit, call, command, shown))


@router.get("/v1/programs", response_model=page_model("Programmes", ProgrammeView))
async def list_programs(query: Annotated[PageQuery, Query()], call: ReadCall) -> Response:
    """List programmes, newest first."""
    return await page(
        call.services, call.caller, query, table="programmes", select=_SELECT, filters={}, show=_show
    )


@router.get("/v1/programs/{id}", response_model=ProgrammeView, responses=refusals("not-found"))
async def get_program(programme_id: PathId, call: ReadCall) -> Response:
    """Get a programme."""
    return json_response(200, _show(await _row(call, programme_id)))


@router.patch(
    "/v1/programs/{id}",
    response_model=ProgrammeView,
    responses=refusals("not-found", "invalid-state-transition", "decision-url-missing", "target-refused"),
)
async def update_program(programme_id: PathId, given: ProgrammeChange, call: OptionallyKeyedCall) -> Response:
    """Change a programme.

    Members that are left out stay as they are. Every change raises `version` by 1 and emits
    `programme.updated`, `programme.suspended` or `programme.closed`; a change without effect does neither.
    The reference and the metadata do not belong to the configuration: their changes do neither.
    """
    services = call.services
    changes = given.model_dump(include=given.model_fields_set)
    row = await _row(call, programme_id)
    await require_callable(services, call.caller, changes.get("decision_url"), "decision_url")
    stored: dict[str, Any] = {name: changes.pop(name) for name in MEMBERS if name in changes}
    if not stored:
        return await submit(call, _change(call, programme_id, changes, key_of), about_of(row).view())

    async def at_owner(inner: Call) -> Response:
        return await submit(inner, _change(call, programme_id, changes, partial(once_key, call)))

    async def work(connection: Connection) -> Response:
        caller = call.caller
        before, after = await change(connection, caller, "programme", programme_id, stored)
        await record_act(connection, call, Change("programme", programme_id, before.view(), after.view()))
        row: Any = await connection.fetchrow(_FIND, programme_id, caller.tenant_id, caller.live)
        return json_response(200, _show(row) | after.view())

    if changes:
        return await owner_first(call, programme_id, stored, at_owner, work)
    return await once(services, call.claim, work)


def _change(
    call: Call, programme_id: str, changes: dict[str, Any], key: Callable[[str], bytes]
) -> ChangeProgramme:
    id_ = call.services.new_id()
    return ChangeProgramme(
        id=id_,
        command_key=key(id_),
        programme_id=programme_id,
        tenant_id=call.caller.tenant_id,
        live=call.caller.live,
        changes=changes,
    )


async def require_programme(call: Call, programme_id: str) -> ProgrammeConfig:
    """The caller's programme. Raises ``Refusal`` 404."""
    return _config((await _row(call, programme_id))["config"])


async def _row(call: Call, programme_id: str) -> asyncpg.Record:
    caller = call.caller
    row = await fetch_row(call.services.pool, _FIND, programme_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return row


async def open_programme(connection: Connection, caller: Caller, programme_id: str) -> ProgrammeConfig:
    """The caller's programme, as parent of a new object. Raises ``Refusal`` 404, or 409 if it is closed."""
    row = await connection.fetchrow(_FIND, programme_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    config = _config(row["config"])
    if config.status == "closed":
        raise Refusal("programme-closed")
    return config


def _show(row: asyncpg.Record) -> dict[str, Any]:
    return programme_view(_config(row["config"])) | about_of(row).view()
