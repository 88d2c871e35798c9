"""The command of a dry run is the command of the simulated spend with the same members."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actors.network.card_checks import CardChecks
from actors.network.card_secrets import CardSecrets
from actors.network.cards import IssuedCard, credentials_of
from actors.network.dry_run import NO_STAN, DryRunCard, dry_run_command
from actors.network.messages import message_of, network_txn_id, rrn, wire_stan
from actors.network.simulation_store import Simulation
from actors.vault import Vault
from engine.commands import Authorize
from engine.currencies import MerchantAmount
from engine.iso8583.codec import EncodeError
from engine.iso8583.content import AuthorizationRequest
from engine.iso8583.content_reader import read
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.translate import to_command
from engine.pan import Pan
from engine.simulation import SpendRequest
from tests.support.actors.network.simulations import spend
from tests.support.actors.network.support import CARD_ID, PAN

SECRETS = CardSecrets(Vault((bytes(range(32)),)))
CARD = DryRunCard("visa", 2029, 11)
SENT = {"wire", "command_key", "fingerprint", "chip_tags"}
"""Members that every message has for itself."""


def sent_command(request: SpendRequest) -> Authorize:
    """The command of a spend that goes through the simulated network and an edge."""
    stan = wire_stan(7)
    simulation = Simulation(
        request=request, stan=stan, rrn=rrn(stan, request.accepted_ms), network_txn_id=network_txn_id(7)
    )
    message = message_of(simulation, credentials_of(SECRETS, Pan(PAN), 2029, 11, "1"))
    content = read(ISO87_ASCII.decode(ISO87_ASCII.encode(message)))
    assert isinstance(content, AuthorizationRequest)
    checks = CardChecks(SECRETS, ISO87_ASCII.verification)
    routed = checks.routed(content, IssuedCard(CARD_ID, 2029, 11, "1"), request.simulation_id, b"")
    command = to_command(content, routed)
    assert isinstance(command, Authorize)
    return command


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"entry_mode": "chip"},
        {"entry_mode": "contactless"},
        {"entry_mode": "magstripe"},
        {"entry_mode": "manual"},
        {"channel": "ecommerce"},
        {"channel": "ecommerce", "mit": True},
        {"channel": "moto"},
        {"channel": "atm", "entry_mode": "chip"},
        {"kind": "refund", "entry_mode": "chip"},
        {"amount_minor": 0},
        {"scenario": "partial_approval"},
        {"approved_amount_minor": 500},
        {"merchant_country": "US", "merchant_name": "Café Größe, with a name of more than forty characters"},
        {"merchant_amount": MerchantAmount(2_000, "JPY"), "approved_amount_minor": 700},
        {"currency": "USD"},
    ],
    ids=str,
)
def test_command_is_that_of_a_simulated_spend(members: dict[str, Any]) -> None:
    request = spend(**members)
    made, sent = dry_run_command(request, CARD), sent_command(request)
    for name in set(Authorize.__struct_fields__) - SENT:
        assert getattr(made, name) == getattr(sent, name), name
    assert bool(made.chip_tags) == bool(sent.chip_tags)
    assert (made.wire.stan, made.wire.network_txn_id) == (NO_STAN, None)


def test_results_of_checks_are_those_of_the_caller() -> None:
    made = dry_run_command(
        spend(channel="ecommerce"), DryRunCard("mastercard", 2029, 11, "mismatch", "valid"), "SHOP 1"
    )
    assert (made.cvv2, made.authentication) == ("mismatch", "valid")
    assert dry_run_command(spend(channel="ecommerce"), CARD).cvv2 == "missing"


def test_command_has_no_card_number() -> None:
    made = dry_run_command(spend(entry_mode="chip"), CARD)
    assert b"4000000000000002" not in msgspec.json.encode(made)


def test_value_that_fits_no_field_is_refused() -> None:
    with pytest.raises(EncodeError):
        dry_run_command(spend(amount_minor=10**12), CARD)
