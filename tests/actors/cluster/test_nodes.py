"""Nodes that can run processes, and Ray's options for placing a process on a node."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors.cluster import nodes as module
from actors.cluster.nodes import NODE_LABEL, Nodes, nodes_with_processors, placement_options
from actors.settings import Settings

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


async def test_head_that_is_away_blocks_one_thread_and_the_last_nodes_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away, asked = asyncio.Event(), list[str]()

    async def ask(_work: object, *, seconds: float | None) -> list[dict[str, Any]]:
        asked.append("asked")
        if away.is_set():
            await asyncio.Event().wait()
        return [row(A, CPU=2)]

    monkeypatch.setattr(module, "in_daemon_thread", ask)
    monkeypatch.setattr(module, "RAY_ANSWER_SECONDS", 0.01)
    nodes = Nodes(Settings.load(var_dir=tmp_path, ray_address="127.0.0.1:1"))
    assert await nodes.living() == [A]
    away.set()
    assert [await nodes.living() for _ in range(3)] == [[A]] * 3
    assert len(asked) == 2, "callers share the question that has no answer"
    with pytest.raises(TimeoutError):
        await nodes.head_answers()
    away.clear()
    nodes.forget()
    await nodes.head_answers()
    away.set()
    assert await nodes.living() == [A]
    monkeypatch.setattr(module, "RAY_REPEAT_SECONDS", 0.0)
    away.clear()
    await nodes.head_answers()
