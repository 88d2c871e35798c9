"""The inputs of flows, and those that a case still awaits."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kyc.flows import (
    DOCUMENT_DATA,
    FLOWS,
    INPUTS,
    PURPOSE_OF,
    PURPOSES,
    Flow,
    in_order,
    inputs_to_drop,
    needs,
    still_awaited,
    suffices,
)

BASIC = ("given_name", "family_name", "date_of_birth", "nationality", "address_line1", "address_postcode")


def test_inputs_of_each_flow() -> None:
    basic = (*BASIC, "address_country")
    document = (*basic, "document_type", "document_number", "document_expiry", "document_issuing_state")
    assert needs("basic") == basic
    assert needs("document") == document
    assert needs("full") == (*document, "document_evidence", "selfie")


def test_each_input_has_one_purpose() -> None:
    assert set(PURPOSE_OF) == {*INPUTS, "document_mrz"} - {"document_type"}
    assert set(PURPOSE_OF.values()) == set(PURPOSES)


@pytest.mark.parametrize("demanded", [None, *FLOWS])
@pytest.mark.parametrize("flow", FLOWS)
def test_stronger_flow_suffices(flow: Flow, demanded: str | None) -> None:
    enough: dict[str | None, set[str]] = {
        None: {*FLOWS},
        "basic": {*FLOWS},
        "document": {"document", "full"},
        "full": {"full"},
    }
    assert suffices(flow, demanded) == (flow in enough[demanded])


@settings(deadline=None)
@given(st.sets(st.sampled_from([*INPUTS, "document_mrz"])))
def test_awaited_inputs_after_some_were_given(given_: set[str]) -> None:
    left = still_awaited(INPUTS, given_)
    assert list(left) == [name for name in INPUTS if name in left]
    assert not set(left) & given_
    covered = set(DOCUMENT_DATA) if "document_mrz" in given_ else set()
    assert set(left) == set(INPUTS) - given_ - covered


def test_request_for_a_document_field_drops_the_zone() -> None:
    assert inputs_to_drop(["document_expiry"]) == {"document_expiry", "document_mrz"}
    assert inputs_to_drop(["selfie", "given_name"]) == {"selfie", "given_name"}
    assert in_order({"selfie", "given_name"}) == ("given_name", "selfie")
