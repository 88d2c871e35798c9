"""Open holds ordered by expiry: a binary heap in which every hold has its index (``Hold.place``).

Adding, removing or moving a hold reads about log2(n) others, and the earliest hold is the first. So a
decision on an account that ten thousand cards share costs about as much as on an account with ten holds.
"""

from __future__ import annotations

from engine.cards.hold import Hold


class Expiries(list[Hold]):
    """The heap. Two heaps are always equal: the account compares its holds, and the heap follows from
    them."""

    __slots__ = ()
    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expiries)

    def __ne__(self, other: object) -> bool:
        return not self == other


def add(heap: Expiries, hold: Hold) -> None:
    """Add ``hold``. Holds added in the order of expiry read one other hold each."""
    heap.append(hold)
    _up(heap, len(heap) - 1, hold)


def remove(heap: Expiries, hold: Hold) -> None:
    """Remove ``hold``."""
    last = heap.pop()
    if last is not hold:
        _settle(heap, hold.place, last)
    hold.place = -1


def move(heap: Expiries, hold: Hold) -> None:
    """Move ``hold`` after a change of its expiry."""
    _settle(heap, hold.place, hold)


def due(heap: Expiries, now_ms: int) -> list[Hold]:
    """Holds whose expiry has passed, the earliest first. Reads at most two other holds for each."""
    found: list[Hold] = []
    places, count = [0], len(heap)
    while places:
        place = places.pop()
        if place < count and heap[place].expires_ms <= now_ms:
            found.append(heap[place])
            places += (2 * place + 1, 2 * place + 2)
    found.sort(key=lambda hold: (hold.expires_ms, hold.id))
    return found


def _settle(heap: Expiries, place: int, hold: Hold) -> None:
    """Move ``hold`` to its position, starting at the free index ``place``."""
    if place and heap[(place - 1) >> 1].expires_ms > hold.expires_ms:
        _up(heap, place, hold)
    else:
        _down(heap, place, hold)


def _up(heap: Expiries, place: int, hold: Hold) -> None:
    expires_ms = hold.expires_ms
    while place:
        above = (place - 1) >> 1
        parent = heap[above]
        if parent.expires_ms <= expires_ms:
            break
        heap[place] = parent
        parent.place = place
        place = above
    heap[place] = hold
    hold.place = place


def _down(heap: Expiries, place: int, hold: Hold) -> None:
    expires_ms, count = hold.expires_ms, len(heap)
    while (below := 2 * place + 1) < count:
        child = heap[below]
        if below + 1 < count and heap[below + 1].expires_ms < child.expires_ms:
            below += 1
            child = heap[below]
        if child.expires_ms >= expires_ms:
            break
        heap[place] = child
        child.place = place
        place = below
    heap[place] = hold
    hold.place = place
