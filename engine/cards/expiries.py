"""Open holds by their expiry: a binary heap in which every hold knows its place.

Placing, closing and moving a hold touches about log2(n) others, and the earliest is at hand: an account that
ten thousand cards share costs a decision no more than an account with ten holds.
"""

from __future__ import annotations

from engine.cards.hold import Hold


class Expiries(list[Hold]):
    """The heap. It follows from the holds in it, so two of them are equal: their holds are compared where
    they are kept."""

    __slots__ = ()
    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expiries)

    def __ne__(self, other: object) -> bool:
        return not self == other


def add(heap: Expiries, hold: Hold) -> None:
    """Put ``hold`` into the heap; added in the order of expiry, each touches one other."""
    heap.append(hold)
    _up(heap, len(heap) - 1, hold)


def remove(heap: Expiries, hold: Hold) -> None:
    """Take ``hold`` out of the heap."""
    last = heap.pop()
    if last is not hold:
        _settle(heap, hold.place, last)
    hold.place = -1


def move(heap: Expiries, hold: Hold) -> None:
    """The expiry of ``hold`` has changed."""
    _settle(heap, hold.place, hold)


def due(heap: Expiries, now_ms: int) -> list[Hold]:
    """Holds whose expiry has passed, the earliest first; touches two others for each of them at the most."""
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
    """Put ``hold`` where it belongs, starting at ``place``, whose hold has gone."""
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
