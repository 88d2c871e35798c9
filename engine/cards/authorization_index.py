"""The authorizations of one card in its owner's memory, indexed by their references.

The reference of a message or of an id names one authorization, or is recorded as absent. A network
transaction id names all authorizations that share it, and ``engine.cards.originals`` chooses one. Older ones
may not be in memory; then their group is not *complete*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from itertools import islice

import msgspec

from engine.cards.account import Account
from engine.cards.authorization import Authorization, references_of
from engine.cards.originals import advice_may_replace, find, find_replacing_advice, is_certain
from engine.commands import (
    AuthorizationCommand,
    is_network,
    reference_of_id,
    reference_of_message,
    reference_of_network,
)


class NetworkGroup(msgspec.Struct):
    """Authorizations that share a network transaction id, oldest first."""

    members: list[Authorization]
    complete: bool


class AuthorizationIndex:
    """Maps a reference to an authorization, to ``None`` (recorded as absent), or to a ``NetworkGroup``.

    A network id that was not looked up maps to its first authorization without a group, which takes a third
    of the memory: a group of one member that may not be complete.
    """

    __slots__ = ("_named",)

    def __init__(self) -> None:
        self._named: dict[str, Authorization | NetworkGroup | None] = {}

    def __len__(self) -> int:
        return len(self._named)

    def __contains__(self, reference: str) -> bool:
        return reference in self._named

    def __getitem__(self, reference: str) -> Authorization:
        """The newest authorization under ``reference``. Raises ``KeyError``."""
        found = self._named[reference]
        if isinstance(found, NetworkGroup):
            return found.members[-1]
        if found is None:
            raise KeyError(reference)
        return found

    def __iter__(self) -> Iterator[Authorization]:
        """Each authorization once."""
        own = (found for name, found in self._named.items() if name.startswith("a:"))
        return (found for found in own if isinstance(found, Authorization))

    def add(self, authorization: Authorization) -> None:
        """Add an authorization that has just been opened, under all its references."""
        named = self._named
        for reference in references_of(authorization):
            # The newest reference is the last one.
            before = named.pop(reference, authorization)
            named[reference] = authorization
            if before is not authorization and is_network(reference):
                named[reference] = _joined(before, authorization)

    def add_reference(self, reference: str, authorization: Authorization) -> None:
        """Add a reference of ``authorization``: that of a message about it."""
        self._named[reference] = authorization

    def find_original(
        self, command: AuthorizationCommand, account: Account | None, now_ms: int
    ) -> Authorization | None:
        """The authorization that ``command`` is about: the one of its first reference that names any."""
        for reference in command.references:
            found = self._named.get(reference)
            if found is not None and is_network(reference):
                found = find(command, _members(found), account, now_ms)
            if found is not None:
                assert isinstance(found, Authorization), "only a network id names a group"
                return self._replacing_advice(command, reference, found, account, now_ms) or found
        return None

    def missing_reference(
        self, command: AuthorizationCommand, account: Account | None, now_ms: int = 0
    ) -> str | None:
        """The first reference of ``command`` to look up in the journal; ``None`` if an earlier one names the
        original. Without ``now_ms``, expired holds count as open."""
        for reference in command.references:
            if reference not in self._named:
                return reference
            found = self._named[reference]
            if found is None:
                continue
            if not is_network(reference):
                assert isinstance(found, Authorization), "only a network id names a group"
                return self._missing_group(command, found)
            chosen = find(command, _members(found), account, now_ms)
            complete = isinstance(found, NetworkGroup) and found.complete
            if not complete and (chosen is None or not is_certain(command, chosen, account)):
                return reference
            if chosen is not None:
                return None
        return None

    def _replacing_advice(
        self,
        command: AuthorizationCommand,
        message: str,
        found: Authorization,
        account: Account | None,
        now_ms: int,
    ) -> Authorization | None:
        """The advice that has replaced the ``message`` that ``command`` reverses, if there is one."""
        if not advice_may_replace(command, found):
            return None
        group = self._named.get(reference_of_network(found.network_txn_id or ""))
        return find_replacing_advice(message, _members(group), account, now_ms)

    def _missing_group(self, command: AuthorizationCommand, found: Authorization) -> str | None:
        """The network id of ``found``, if an advice under it may have replaced ``found`` and may not be in
        memory."""
        if not advice_may_replace(command, found):
            return None
        reference = reference_of_network(found.network_txn_id or "")
        group = self._named.get(reference)
        return None if isinstance(group, NetworkGroup) and group.complete else reference

    def load(self, reference: str, read: Iterable[Authorization]) -> None:
        """Add the authorizations that the journal has under ``reference``, oldest first. Those in memory are
        newer and stay."""
        before = self._named.get(reference)
        if before is not None and (
            not is_network(reference) or (isinstance(before, NetworkGroup) and before.complete)
        ):
            return
        found = [self._existing_or_added(each) for each in read]
        if not is_network(reference):
            self._named[reference] = found[0] if found else None
            return
        mine = [] if before is None else _members(before)
        members = found + [each for each in mine if all(each is not other for other in found)]
        self._named[reference] = NetworkGroup(members, complete=True) if members else None

    def copy(self) -> AuthorizationIndex:
        """An independent copy, with copies of all authorizations."""
        twins: dict[int, Authorization] = {}

        def twin_of(each: Authorization) -> Authorization:
            twin = twins.get(id(each))
            if twin is None:
                twin = twins[id(each)] = copy(each)
                twin.increments = dict(each.increments)
            return twin

        index = AuthorizationIndex()
        index._named = {
            reference: NetworkGroup([twin_of(each) for each in found.members], found.complete)
            if isinstance(found, NetworkGroup)
            else found and twin_of(found)
            for reference, found in self._named.items()
        }
        return index

    def evict_oldest(self, most: int) -> None:
        """Keep at most the newest ``most`` references. An authorization is evicted under all its references
        or under none; otherwise a later read would add it twice."""
        surplus = len(self._named) - most
        if surplus <= 0:
            return
        # Evict more than necessary, because each eviction scans all references. All references without an
        # authorization share the value ``None`` and are evicted together.
        count = surplus + most // 2
        evicted = {id(each) for found in islice(self._named.values(), count) for each in _values(found)}
        self._named = {
            reference: found
            for reference, found in islice(self._named.items(), count, None)
            if evicted.isdisjoint(map(id, _values(found)))
        }

    def _existing_or_added(self, read: Authorization) -> Authorization:
        """The copy in memory if there is one; else ``read``, which is added under its id and its message."""
        mine = self._named.get(reference_of_id(read.id))
        if isinstance(mine, Authorization):
            return mine
        own = (reference_of_id(read.id), reference_of_message(read.command_key))
        self._named |= dict.fromkeys(own, read)
        return read


def _joined(before: Authorization | NetworkGroup | None, opened: Authorization) -> NetworkGroup:
    """The group of a network id that had ``before``, with an authorization that has just been opened."""
    if isinstance(before, NetworkGroup):
        before.members.append(opened)
        return before
    if before is None:
        return NetworkGroup([opened], complete=True)
    return NetworkGroup([before, opened], complete=False)


def _members(found: Authorization | NetworkGroup | None) -> list[Authorization]:
    if found is None:
        return []
    return found.members if isinstance(found, NetworkGroup) else [found]


def _values(found: Authorization | NetworkGroup | None) -> Sequence[Authorization | None]:
    """The authorizations of a reference, or ``None`` for a reference without any."""
    return found.members if isinstance(found, NetworkGroup) else (found,)
