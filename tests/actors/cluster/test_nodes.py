"""Nodes that can run processes, and Ray's options for placing a process on a node."""

from __future__ import annotations

from typing import Any

import pytest

from actors.cluster.nodes import NODE_LABEL, nodes_with_processors, placement_options

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
def test_living_nodes_with_processors_run_processes(table: list[dict[str, Any]], nodes: list[str]) -> None:
    assert nodes_with_processors(table) == nodes


def test_pinned_process_runs_on_its_node_only() -> None:
    strategy = placement_options(A, pinned=True)["scheduling_strategy"]
    assert (strategy.node_id, strategy.soft) == (A, False)


def test_unpinned_process_moves_when_its_node_leaves() -> None:
    assert placement_options(A, pinned=False) == {
        "label_selector": {NODE_LABEL: A},
        "fallback_strategy": [{"label_selector": {NODE_LABEL: f"!{A}"}}],
    }
