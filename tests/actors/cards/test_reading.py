"""The needs of a read."""

from __future__ import annotations

from actors.cards.reading import Need, Wanted


def test_repeated_need_is_read_once() -> None:
    wanted, more = Wanted(), Wanted()
    for need in (Need("card", "b"), Need("card", "a"), Need("card", "b"), Need("programme", "p")):
        wanted.add(need)
    more.add(Need("account", "x"))
    wanted.add_all(more)
    assert wanted.ids() == ["b", "a", "x", "p"]
    assert Need("card", "a") in wanted
    assert Need("account", "a") not in wanted
