"""The versions of programmes, folded from their journal."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from engine.commands import CreateProgramme, ProgrammeCommand
from engine.execution.execute_programme import create, execute_programme
from engine.programmes.programme import Programme, ProgrammeConfig
from engine.rules.model import Rule
from engine.rules.observed import RuleName

_NO_RULES: Final[tuple[list[int], list[tuple[Rule, ...]]]] = ([], [])


class ProgrammeVersions:
    """All versions of all programmes, with the instant from which each was in force."""

    def __init__(self) -> None:
        self._latest: dict[str, Programme] = {}
        self._configs: dict[str, list[ProgrammeConfig]] = {}
        self._since: dict[str, list[int]] = {}
        self._rules: dict[str, tuple[list[int], list[tuple[Rule, ...]]]] = {}
        self.rules: dict[RuleName, Rule] = {}
        """All versions of the authorization rules of programmes and card products."""

    def add(self, programme_id: str, command: ProgrammeCommand, at_ms: int) -> None:
        """Execute ``command``, the next one in the programme's journal, at ``at_ms``."""
        if isinstance(command, CreateProgramme):
            executed = create(command, at_ms)
        else:
            executed = execute_programme(command, self._latest[programme_id], at_ms)
        if executed.after is None:
            return
        self._latest[programme_id] = executed.after
        if executed.rule is not None:
            self.rules[executed.rule.id, executed.rule.version] = executed.rule
            since, rules = self._rules.setdefault(programme_id, ([], []))
            since.append(at_ms)
            rules.append(executed.after.rules)
        configs = self._configs.setdefault(programme_id, [])
        # Grants and outages do not change the configuration.
        if not configs or configs[-1].version != executed.after.config.version:
            configs.append(executed.after.config)
            self._since.setdefault(programme_id, []).append(at_ms)

    def numbered(self, programme_id: str, version: int) -> ProgrammeConfig:
        """The version that a decision names. Versions are numbered from 1. Raises KeyError."""
        configs = self._configs[programme_id]
        if not 1 <= version <= len(configs):
            raise KeyError(version)
        return configs[version - 1]

    def at(self, programme_id: str, at_ms: int) -> ProgrammeConfig:
        """The version in force at ``at_ms``; the first one before its own instant. Raises KeyError."""
        configs = self._configs[programme_id]
        if len(configs) == 1:
            return configs[0]
        index = bisect_right(self._since[programme_id], at_ms) - 1
        return configs[max(0, index)]

    def rules_at(self, programme_id: str, at_ms: int) -> tuple[Rule, ...]:
        """The authorization rules of the programme and its card products at ``at_ms``."""
        since, rules = self._rules.get(programme_id, _NO_RULES)
        index = bisect_right(since, at_ms) - 1
        return rules[index] if index >= 0 else ()
