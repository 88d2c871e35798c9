"""Programmes, their stand-in policies and the stand-in report."""

from __future__ import annotations

from stanchion import inputs, records
from stanchion.compat import Unpack
from stanchion.operations import PAGE_SIZE, AnyTransport, Call, Resource, operation, rows


class Programs(Resource[AnyTransport]):
    """Programmes."""

    @operation("POST", "/v1/programs")
    def create(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.ProgrammeFields]
    ) -> Call[records.NewProgramme]:
        """Create a programme; the answer contains the secret that signs calls to its ``decision_url``."""
        return Call(body=fields, key=idempotency_key)

    @operation("GET", "/v1/programs/{id}")
    def get(self, id_: str) -> Call[records.Programme]:
        """One programme."""
        return Call(id_)

    @operation("PATCH", "/v1/programs/{id}")
    def update(
        self, id_: str, *, idempotency_key: str | None = None, **change: Unpack[inputs.ProgrammeChange]
    ) -> Call[records.Programme]:
        """Change some members. After the answer, the change is in force for every later decision."""
        return Call(id_, body=change, key=idempotency_key)

    @rows("/v1/programs")
    def list(self, *, page_size: int = PAGE_SIZE) -> Call[records.Programme]:
        """All programmes."""
        return Call(query={"limit": page_size})

    @operation("GET", "/v1/programs/{id}/stip-policy")
    def stip_policy(self, id_: str) -> Call[records.StandInPolicy]:
        """The policy for decisions during an outage of the programme's endpoint."""
        return Call(id_)

    @operation("PUT", "/v1/programs/{id}/stip-policy")
    def set_stip_policy(
        self, id_: str, *, idempotency_key: str | None = None, **fields: Unpack[inputs.StandInPolicyFields]
    ) -> Call[records.StandInPolicy]:
        """Replace the whole policy; omitted members get their default."""
        return Call(id_, body=fields, key=idempotency_key)

    @rows("/v1/programs/{id}/stip-activity")
    def stip_activity(
        self, id_: str, from_: str, to: str, *, page_size: int = PAGE_SIZE
    ) -> Call[records.StandIn]:
        """Stand-in decisions in a window of at most 90 days."""
        return Call(id_, query={"from": from_, "to": to, "limit": page_size})

    @rows("/v1/programs/{id}/outages")
    def outages(self, id_: str, *, page_size: int = PAGE_SIZE) -> Call[records.Outage]:
        """The outages of the programme's endpoint, newest first."""
        return Call(id_, query={"limit": page_size})
