"""Request bodies and filters of back-tests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)

from api.authorization_rules.conditions import ConditionsInput
from api.authorization_rules.conditions import to_engine as to_conditions
from api.authorization_rules.inputs import Name
from api.authorization_rules.values import Slug
from api.cards.controls import ControlInput, to_engine
from api.http.fields import ID_EXAMPLE, UUID_PATTERN, Id, InstantInput, example
from api.http.validation import Input, broken
from api.http.windows import require_bounded, window_of
from api.operations.pagination import PageQuery
from engine.backtests.plan import Change, ControlsChange, Plan, Scope, ScopeType
from engine.backtests.tally import Direction
from engine.instant import to_ms
from engine.limits import BACKTEST_CONTROLS_MAX, BACKTEST_RULES_MAX, BACKTEST_WINDOW_DAYS_MAX
from engine.rules.model import Action, Rule

ControlKind = Literal[
    "mcc_allow",
    "mcc_deny",
    "country_allow",
    "country_deny",
    "channel_allow",
    "channel_deny",
    "per_txn_cap",
    "per_day_cap",
    "per_day_amount_cap",
]


RuleVersion = Annotated[
    str,
    StringConstraints(pattern=UUID_PATTERN[:-1] + "@[1-9][0-9]{0,8}$"),
    AfterValidator(str.lower),
    example(f"{ID_EXAMPLE}@2"),
]
"""Id and version of an authorization rule."""


class ScopeInput(Input):
    """The cards to which the change applies: all cards of a programme or a card product, or one card."""

    type: ScopeType
    id: Id


class RuleBody(Input):
    """An authorization rule that need not exist, as `POST /v1/authorization-rules` takes it."""

    name: Name
    scope: ScopeInput | None = None
    """The scope of the back-test, which is also the default."""
    when: ConditionsInput
    """The rule matches a purchase for which all these conditions hold."""
    action: Action = "decline"
    """As of a rule that is created."""
    reason: Slug
    """Shown as `decline_detail` on each flip that the rule declines."""
    state: Literal["draft", "shadow", "active"] = "draft"
    """The back-test applies the rule in any state."""

    def rule(self, place: int, scope: Scope) -> Rule:
        """The engine's rule at ``place`` of ``add_rules``. Results name it by this place."""
        return Rule(
            id=f"add_rules/{place}",
            scope=scope.type,
            scope_id=scope.id,
            name=self.name,
            when=to_conditions(self.when),
            action=self.action,
            reason=self.reason,
            state="active",
        )


def _shape(value: object) -> str:
    return "body" if isinstance(value, dict | RuleBody) else "version"


AddedRule = Annotated[
    Annotated[RuleVersion, Tag("version")] | Annotated[RuleBody, Tag("body")], Discriminator(_shape)
]


class ControlsChangeInput(Input):
    """A change of every card's own controls, as they were at each moment."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    remove: Annotated[list[ControlKind], Field(default_factory=list, max_length=9), example(["per_txn_cap"])]
    """Kinds of controls that no card has any more."""
    add: Annotated[
        list[ControlInput],
        Field(default_factory=list, max_length=BACKTEST_CONTROLS_MAX),
        example([{"kind": "per_txn_cap", "amount": "100.00"}]),
    ]
    """Controls that every card has in addition."""

    @model_validator(mode="after")
    def _not_empty(self) -> ControlsChangeInput:
        if not self.remove and not self.add:
            raise broken("missing", "The change must remove or add a control.")
        return self


class ChangeInput(Input):
    """The change to be examined; at least one member."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    controls: ControlsChangeInput | None = None
    add_rules: Annotated[list[AddedRule], Field(default_factory=list, max_length=BACKTEST_RULES_MAX)]
    """Authorization rules that every card has in addition: versions of rules, in any state, or bodies of new
    ones. The version of a rule that is in force replaces the one in force. Results name a body by its place
    in this list, such as `rule:add_rules/0@1`."""
    remove_rules: Annotated[list[Id], Field(default_factory=list, max_length=BACKTEST_RULES_MAX)]
    """Rules that no card has any more."""

    @model_validator(mode="after")
    def _not_empty(self) -> ChangeInput:
        if self.controls is None and not self.add_rules and not self.remove_rules:
            raise broken("missing", "The change must name controls or rules.")
        versions = self.added_versions.values()
        if len({each.partition("@")[0] for each in versions}) < len(versions):
            raise broken("invalid", "One version of each rule can be added.", at="/add_rules")
        return self

    @property
    def added_versions(self) -> dict[int, str]:
        """The versions among ``add_rules``, by their places."""
        return {place: each for place, each in enumerate(self.add_rules) if isinstance(each, str)}

    def change(self, rules: Mapping[str, Rule], scope: Scope) -> Change:
        """The engine's change; ``rules`` has the versions among ``add_rules``."""
        controls = self.controls
        return Change(
            None
            if controls is None
            else ControlsChange(tuple(dict.fromkeys(controls.remove)), to_engine(controls.add)),
            tuple(
                rules[each] if isinstance(each, str) else each.rule(place, scope)
                for place, each in enumerate(self.add_rules)
            ),
            tuple(dict.fromkeys(self.remove_rules)),
        )


class BacktestInput(Input):
    """A back-test to be run."""

    scope: ScopeInput
    from_: Annotated[InstantInput, Field(alias="from"), example("2026-10-24T00:00:00Z")]
    """The first instant of the window. The histories before it are lived unchanged."""
    to: Annotated[InstantInput, example("2026-11-23T00:00:00Z")]
    """The end of the window, exclusive. Later decisions than the start of the back-test are not in it."""
    change: ChangeInput
    assume_presented: bool = True
    """Whether purchases that only the change approves are presented in full; with `false` their holds
    lapse."""

    @property
    def window(self) -> tuple[datetime, datetime]:
        """Start (inclusive) and end (exclusive)."""
        return window_of(self.from_, self.to)

    @model_validator(mode="after")
    def _window(self) -> BacktestInput:
        require_bounded(self.window, BACKTEST_WINDOW_DAYS_MAX)
        return self

    @model_validator(mode="after")
    def _bodies_have_its_scope(self) -> BacktestInput:
        for place, added in enumerate(self.change.add_rules):
            if isinstance(added, RuleBody) and added.scope not in (None, self.scope):
                detail = "The scope of an added rule is that of the back-test."
                raise broken("invalid", detail, at=f"/change/add_rules/{place}/scope")
        return self

    def plan(self, rules: Mapping[str, Rule]) -> Plan:
        """The engine's plan; ``rules`` has the versions among ``add_rules``."""
        begin, end = self.window
        scope = Scope(self.scope.type, self.scope.id)
        return Plan(scope, to_ms(begin), to_ms(end), self.change.change(rules, scope), self.assume_presented)

    def shown_change(self) -> dict[str, Any]:
        """The change as it is shown."""
        return self.change.model_dump(mode="json", exclude_unset=True)


class FlipsQuery(PageQuery):
    """The query of the list of flips."""

    direction: Direction | None = None
