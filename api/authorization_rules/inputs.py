"""Request bodies and filters of authorization rules."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from api.authorization_rules.conditions import ConditionsInput, to_engine
from api.authorization_rules.values import Slug
from api.http.fields import Id, Text100, example
from api.http.validation import Input, broken
from api.operations.pagination import PageQuery, limit_of
from engine.limits import PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX
from engine.rules.model import Action, RuleChange, Scope, State

Name = Annotated[Text100, example("Late gambling")]
VERSION_MAX = 2**31 - 1


class ScopeInput(Input):
    """The programme, card product or card whose purchases a rule decides on."""

    type: Scope
    id: Id


class RuleInput(Input):
    """A new authorization rule."""

    name: Name
    scope: ScopeInput
    when: ConditionsInput
    """The rule matches a purchase for which all these conditions hold."""
    action: Action = "decline"
    """`require_authentication` declines only e-commerce purchases that 3-D Secure has not authenticated and
    that the merchant did not initiate, so that the merchant can try again with 3-D Secure."""
    reason: Slug
    """The caller's own reason, shown as `decline_detail` on each decision that the rule declines."""
    state: Literal["draft", "shadow", "active"] = "draft"


class RuleChangeInput(Input):
    """Members of a rule to replace; at least one."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    name: Name = ""
    when: Annotated[ConditionsInput, Field(default_factory=list)]
    """The new conditions; they replace all conditions of the rule."""
    action: Action = "decline"
    reason: Slug = ""

    @model_validator(mode="after")
    def _require_member(self) -> RuleChangeInput:
        if not self.model_fields_set:
            raise broken("missing", "Name at least one member to change.")
        return self

    def change(self, rule_id: str) -> RuleChange:
        """The engine's change of a rule, with the members that are given."""
        given: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        if "when" in given:
            given["when"] = to_engine(self.when)
        return RuleChange(rule_id=rule_id, **given)


class RulesQuery(PageQuery):
    """Filters of the list."""

    scope_type: Scope | None = None
    scope_id: Id | None = None
    state: State | None = None


def _version(text: object) -> int:
    if isinstance(text, str) and text.isascii() and text.isdecimal() and 1 <= int(text[:10]) <= VERSION_MAX:
        return int(text)
    raise broken("range", "The value must be a number of a version.")


Version = Annotated[int, Field(ge=1, le=VERSION_MAX), BeforeValidator(_version), example(2)]


class VersionsQuery(Input):
    """The query parameters of the list of versions."""

    limit: Annotated[int, Field(ge=1, le=PAGE_LIMIT_MAX), BeforeValidator(limit_of)] = PAGE_LIMIT_DEFAULT
    """Rows on a page."""
    starting_after: Version | None = None
    """The `next_cursor` of the page before: a version."""
