"""The dashboards' JSON files are current and complete."""

from __future__ import annotations

import json
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from ops.grafana.__main__ import FOLDER, rendered

TEXTS = rendered()


def panels(name: str) -> list[dict[str, Any]]:
    return [panel for panel in json.loads(TEXTS[name])["panels"] if panel["type"] != "row"]


def test_the_files_are_current() -> None:
    files = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.json")}
    assert files == TEXTS, "run make dashboards"


@pytest.mark.parametrize("name", TEXTS)
def test_each_panel_has_a_description(name: str) -> None:
    titles = [panel["title"] for panel in panels(name)]
    assert len(titles) == len(set(titles)) > 0
    for panel in panels(name):
        assert panel["description"].endswith(".")
        assert panel["targets"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references))
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${source}"}


@pytest.mark.parametrize("name", TEXTS)
def test_the_models_of_grafanas_schema_keep_every_member(name: str) -> None:
    # The models are generated from the schema that Grafana publishes; a member that it lacks would be lost.
    given = json.loads(TEXTS[name])
    assert json.loads(JSONEncoder().encode(Dashboard.from_json(given))) == given
    assert given["schemaVersion"] > 30


@pytest.mark.parametrize("name", TEXTS)
def test_panels_do_not_overlap(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(TEXTS[name])["panels"]:
        grid = panel["gridPos"]
        places = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not taken & places
        assert grid["x"] + grid["w"] <= 24
        taken |= places


def test_dashboards_have_unique_addresses() -> None:
    ids = [json.loads(text)["uid"] for text in TEXTS.values()]
    assert len(ids) == len(set(ids))
    assert all(uid.startswith("stanchion-") for uid in ids)
