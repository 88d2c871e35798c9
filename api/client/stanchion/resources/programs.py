"""Programmes, and what may be decided for them in their absence."""

from __future__ import annotations

from typing import Unpack

from stanchion import inputs, records
from stanchion.operations import PAGE_SIZE, Ask, Family, Way, operation, rows


class Programs(Family[Way]):
    """Programmes."""

    @operation("POST", "/v1/programs")
    def create(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.ProgrammeFields]
    ) -> Ask[records.NewProgramme]:
        """A new programme, answered with the secret that signs calls to its ``decision_url``."""
        return Ask(body=fields, key=idempotency_key)

    @operation("GET", "/v1/programs/{id}")
    def get(self, id_: str) -> Ask[records.Programme]:
        """One programme."""
        return Ask(id_)

    @operation("PATCH", "/v1/programs/{id}")
    def update(
        self, id_: str, *, idempotency_key: str | None = None, **change: Unpack[inputs.ProgrammeChange]
    ) -> Ask[records.Programme]:
        """In force for every later decision once it is answered."""
        return Ask(id_, body=change, key=idempotency_key)

    @rows("/v1/programs")
    def list(self, *, page_size: int = PAGE_SIZE) -> Ask[records.Programme]:
        """All programmes."""
        return Ask(query={"limit": page_size})

    @operation("GET", "/v1/programs/{id}/stip-policy")
    def stip_policy(self, id_: str) -> Ask[records.StandInPolicy]:
        """What may be approved while the programme's own decisions cannot be had."""
        return Ask(id_)

    @operation("PUT", "/v1/programs/{id}/stip-policy")
    def set_stip_policy(
        self, id_: str, *, idempotency_key: str | None = None, **fields: Unpack[inputs.StandInPolicyFields]
    ) -> Ask[records.StandInPolicy]:
        """Replace the whole policy: what is left out has its default afterwards."""
        return Ask(id_, body=fields, key=idempotency_key)

    @rows("/v1/programs/{id}/stip-activity")
    def stip_activity(
        self, id_: str, from_: str, to: str, *, page_size: int = PAGE_SIZE
    ) -> Ask[records.StandIn]:
        """Decisions in stand-in of a window of at most 90 days."""
        return Ask(id_, query={"from": from_, "to": to, "limit": page_size})
