"""Authorization rules, their versions and their reports."""

from __future__ import annotations

from stanchion import inputs, records
from stanchion.compat import Unpack
from stanchion.operations import PAGE_SIZE, AnyTransport, Call, Resource, operation, rows


class AuthorizationRules(Resource[AnyTransport]):
    """Conditions of the issuer that decline purchases."""

    @operation("POST", "/v1/authorization-rules")
    def create(
        self, *, idempotency_key: str | None = None, **fields: Unpack[inputs.RuleFields]
    ) -> Call[records.AuthorizationRule]:
        """Create a rule, by default as a draft."""
        return Call(body=fields, key=idempotency_key)

    @operation("GET", "/v1/authorization-rules/{id}")
    def get(self, id_: str) -> Call[records.AuthorizationRule]:
        """One rule in its newest version."""
        return Call(id_)

    @operation("PATCH", "/v1/authorization-rules/{id}")
    def update(
        self, id_: str, *, idempotency_key: str | None = None, **change: Unpack[inputs.RuleChange]
    ) -> Call[records.AuthorizationRule]:
        """Make a new version. If the rule is active, the version is in force after the answer."""
        return Call(id_, body=change, key=idempotency_key)

    @operation("POST", "/v1/authorization-rules/{id}/shadow")
    def shadow(self, id_: str, *, idempotency_key: str | None = None) -> Call[records.AuthorizationRule]:
        """Evaluate the rule without effect, and report its matches."""
        return Call(id_, body={}, key=idempotency_key)

    @operation("POST", "/v1/authorization-rules/{id}/activate")
    def activate(self, id_: str, *, idempotency_key: str | None = None) -> Call[records.AuthorizationRule]:
        """Put the rule in force: it decides every authorization after the answer."""
        return Call(id_, body={}, key=idempotency_key)

    @operation("POST", "/v1/authorization-rules/{id}/retire")
    def retire(self, id_: str, *, idempotency_key: str | None = None) -> Call[records.AuthorizationRule]:
        """End the rule, for ever."""
        return Call(id_, body={}, key=idempotency_key)

    @rows("/v1/authorization-rules")
    def list(
        self, *, page_size: int = PAGE_SIZE, **filters: Unpack[inputs.RuleFilter]
    ) -> Call[records.AuthorizationRule]:
        """All rules, or those that match."""
        return Call(query={**filters, "limit": page_size})

    @rows("/v1/authorization-rules/{id}/versions")
    def versions(self, id_: str, *, page_size: int = PAGE_SIZE) -> Call[records.RuleVersion]:
        """The versions of a rule."""
        return Call(id_, query={"limit": page_size})

    @operation("GET", "/v1/authorization-rules/{id}/report")
    def report(self, id_: str, from_: str, to: str) -> Call[records.RuleReport]:
        """The matches of a rule in a half-open window of instants, at most 92 days."""
        return Call(id_, query={"from": from_, "to": to})
