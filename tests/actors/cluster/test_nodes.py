"""Which nodes of Ray's table take processes, and what Ray is told about where."""

from __future__ import annotations

from typing import Any

import pytest

from actors.cluster.nodes import NODE_LABEL, on, taking

A, B, C = "a" * 56, "b" * 56, "c" * 56


def row(node: str, *, alive: bool = True, **resources: float) -> dict[str, Any]:
    return {"NodeID": node, "Alive": alive, "Resources": resources}


@pytest.mark.parametrize(
    ("table", "nodes"),
    [
        ([row(A, CPU=2)], [A]),
        ([row(B, CPU=2), row(A, CPU=0.5)], [A, B]),
        ([row(A, CPU=2), row(B, alive=False, CPU=2)], [A]),
        ([row(A, CPU=0), row(B, CPU=2), row(C, memory=1)], [B]),
        ([row(A), row(B, CPU=0)], []),
        ([row(A, alive=False, CPU=2)], []),
    ],
)
def test_living_nodes_with_processors_take_processes(table: list[dict[str, Any]], nodes: list[str]) -> None:
    assert taking(table) == nodes


def test_a_pinned_process_is_nowhere_else() -> None:
    strategy = on(A, pinned=True)["scheduling_strategy"]
    assert (strategy.node_id, strategy.soft) == (A, False)


def test_any_other_goes_on_elsewhere_when_its_node_is_gone() -> None:
    assert on(A, pinned=False) == {
        "label_selector": {NODE_LABEL: A},
        "fallback_strategy": [{"label_selector": {NODE_LABEL: f"!{A}"}}],
    }
