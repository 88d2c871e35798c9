"""State and commands for tests: valid by default, and each part can be replaced by name.

Ids are numbered: ``an_id(7)`` is always the same id, and ``derive`` never gives another numbered id.
"""

from __future__ import annotations

from typing import Any

import msgspec

from engine.authorization.authorizing import decision_inputs
from engine.authorization.executed import CommandContext
from engine.cards.account import Account
from engine.cards.card import Card
from engine.commands import (
    Authorize,
    ChangeCard,
    ChangeProgramme,
    CreateCard,
    CreateProgramme,
    DeclareBalance,
    EndOutage,
    Evaluate,
    GrantStandIns,
    Load,
    PreviewStandIn,
    ReadBalance,
    ReadHeadroom,
    ReplaceCard,
    ReverseTransfer,
    SetCardholderStatus,
    SetStandInPolicy,
    Transfer,
    WireIdentity,
)
from engine.decision.inputs import Inputs
from engine.ids import Derived, derive
from engine.programmes.programme import Programme, ProgrammeConfig
from engine.programmes.stand_in import StandInPolicy, StandInRequest
from engine.transfer import PostedTransfer

NOW_MS = 1_795_255_200_000
"""2026-11-21 10:00:00 UTC, a Saturday."""
SHARD = 0xA7


def an_id(number: int, shard: int = SHARD) -> str:
    """The id with ``number`` on ``shard``."""
    return f"{number:08x}-0000-7000-8000-0000000000{shard:02x}"


def key(number: int) -> bytes:
    """Sixteen bytes, as a command key or a fingerprint."""
    return number.to_bytes(16, "big")


TENANT = an_id(0xA1)
PROGRAMME = an_id(0xB1)
CARD = an_id(0xC1)
ACCOUNT = derive(CARD, Derived.ACCOUNT)
PRODUCT = an_id(0xD1)
CARDHOLDER = an_id(0xE1)


def programme(**parts: Any) -> ProgrammeConfig:
    """An active, managed programme in euro."""
    config = ProgrammeConfig(
        id=PROGRAMME, tenant_id=TENANT, live=False, name="Travel", currency="EUR", created_ms=NOW_MS
    )
    return msgspec.structs.replace(config, **parts)


def policy(**parts: Any) -> StandInPolicy:
    """Stand-in up to 50.00 for each approval and 100.00 for each outage, in euro."""
    made = StandInPolicy(
        mode="approve_within_limits",
        max_amount_minor=5_000,
        max_total_exposure_minor=10_000,
        budget_currency="EUR",
    )
    return msgspec.structs.replace(made, **parts)


def governed(seq: int = 1, **parts: Any) -> Programme:
    """A programme in its owner's memory; ``parts`` are members of its configuration."""
    return Programme(programme(**parts), seq, None, b"sealed")


def card(**parts: Any) -> Card:
    """An active Visa card in euro without controls."""
    made = Card(
        id=CARD,
        tenant_id=TENANT,
        live=False,
        programme_id=PROGRAMME,
        card_product_id=PRODUCT,
        cardholder_id=CARDHOLDER,
        account_id=ACCOUNT,
        network="visa",
        currency="EUR",
        iin="411111",
        last4="1111",
        pan_ref="pan_1",
        exp_month=11,
        exp_year=2029,
        cvk_generation="1",
        state="active",
        controls=(),
        created_ms=NOW_MS,
    )
    return msgspec.structs.replace(made, **parts)


def account(**parts: Any) -> Account:
    """A card's account with 100.00 posted and nothing held."""
    made = Account(
        id=ACCOUNT,
        tenant_id=TENANT,
        live=False,
        programme_id=PROGRAMME,
        currency="EUR",
        posted_minor=10_000,
        version=1,
    )
    return msgspec.structs.replace(made, **parts)


def wire(number: int, **parts: Any) -> WireIdentity:
    """A message's identity with STAN ``number``."""
    made = WireIdentity("00000000001", f"{number % 1_000_000:06d}", "1121100000", f"632510{number:06d}"[-12:])
    return msgspec.structs.replace(made, **parts)


def authorize(number: int = 1, **parts: Any) -> Authorize:
    """A purchase of 10.00 in an Irish shop; ``number`` makes its id, key and wire identity."""
    made = Authorize(
        id=an_id(0x10_0000 + number),
        command_key=key(number),
        card_id=CARD,
        fingerprint=key(number),
        wire=wire(number),
        amount_minor=1_000,
        currency="EUR",
        mcc="5411",
        merchant_name="Corner Shop",
        merchant_country="IE",
        channel="pos",
        entry_mode="chip",
    )
    return msgspec.structs.replace(made, **parts)


def create_card(number: int = 1, shard: int = SHARD, **parts: Any) -> CreateCard:
    """An active card with an account of its own."""
    card_id = parts.pop("id", an_id(0x20_0000 + number, shard))
    made = CreateCard(
        id=card_id,
        command_key=key(0x20_0000 + number),
        tenant_id=TENANT,
        live=False,
        programme_id=PROGRAMME,
        card_product_id=PRODUCT,
        cardholder_id=CARDHOLDER,
        account_id=derive(card_id, Derived.ACCOUNT),
        opens_account=True,
        network="visa",
        currency="EUR",
        iin="411111",
        last4="1111",
        pan_ref=f"pan_{number}",
        exp_month=11,
        exp_year=2029,
        cvk_generation="1",
        state="active",
    )
    return msgspec.structs.replace(made, **parts)


def replace_card(number: int = 1, shard: int = SHARD, **parts: Any) -> ReplaceCard:
    """The replacement of a lost card by an active one."""
    made = ReplaceCard(
        id=an_id(0xC0_0000 + number, shard),
        command_key=key(0xC0_0000 + number),
        card_id=CARD,
        tenant_id=TENANT,
        live=False,
        reason="lost",
        last4="2222",
        pan_ref=f"pan_new_{number}",
        exp_month=12,
        exp_year=2029,
        cvk_generation="2",
        state="active",
    )
    return msgspec.structs.replace(made, **parts)


def change_card(number: int = 1, **parts: Any) -> ChangeCard:
    """A change of a card; without ``parts`` it changes nothing."""
    made = ChangeCard(
        id=an_id(0x30_0000 + number),
        command_key=key(0x30_0000 + number),
        card_id=CARD,
        tenant_id=TENANT,
        live=False,
    )
    return msgspec.structs.replace(made, **parts)


def load(number: int = 1, **parts: Any) -> Load:
    """A load of 50.00."""
    made = Load(
        id=an_id(0x40_0000 + number),
        command_key=key(0x40_0000 + number),
        card_id=CARD,
        tenant_id=TENANT,
        live=False,
        amount_minor=5_000,
        currency="EUR",
    )
    return msgspec.structs.replace(made, **parts)


def transfer(number: int = 1, **parts: Any) -> Transfer:
    """A debit of 30.00."""
    made = Transfer(
        id=an_id(0xC0_0000 + number),
        command_key=key(0xC0_0000 + number),
        card_id=CARD,
        tenant_id=TENANT,
        live=False,
        account_id=ACCOUNT,
        direction="debit",
        kind="unload",
        amount_minor=3_000,
        currency="EUR",
    )
    return msgspec.structs.replace(made, **parts)


def posted_transfer(number: int = 1, **parts: Any) -> PostedTransfer:
    """The transfer of ``transfer(number)``, posted at ``NOW_MS``."""
    made = PostedTransfer(
        id=derive(an_id(0xC0_0000 + number), Derived.TRANSFER),
        account_id=ACCOUNT,
        programme_id=PROGRAMME,
        direction="debit",
        kind="unload",
        amount_minor=3_000,
        currency="EUR",
        external_ref=None,
        description=None,
        metadata={},
        created_ms=NOW_MS,
    )
    return msgspec.structs.replace(made, **parts)


def reverse_transfer(number: int = 1, posted: PostedTransfer | None = None, **parts: Any) -> ReverseTransfer:
    """The reversal of ``posted``; a debit of 30.00 by default."""
    made = ReverseTransfer(
        id=an_id(0xD0_0000 + number),
        command_key=key(0xD0_0000 + number),
        card_id=CARD,
        tenant_id=TENANT,
        live=False,
        transfer=posted or posted_transfer(number),
    )
    return msgspec.structs.replace(made, **parts)


def declare_balance(number: int = 1, **parts: Any) -> DeclareBalance:
    """A declared balance of 25.00."""
    made = DeclareBalance(
        id=an_id(0x80_0000 + number),
        command_key=key(0x80_0000 + number),
        card_id=CARD,
        tenant_id=TENANT,
        live=False,
        amount_minor=2_500,
        currency="EUR",
    )
    return msgspec.structs.replace(made, **parts)


def set_cardholder_status(number: int = 1, **parts: Any) -> SetCardholderStatus:
    """The block of a cardholder."""
    made = SetCardholderStatus(
        id=an_id(0x90_0000 + number),
        command_key=key(0x90_0000 + number),
        card_id=CARD,
        tenant_id=TENANT,
        live=False,
        active=False,
    )
    return msgspec.structs.replace(made, **parts)


def read_balance(number: int = 1, **parts: Any) -> ReadBalance:
    """A read of the balance."""
    made = ReadBalance(
        id=an_id(0x50_0000 + number),
        command_key=key(0x50_0000 + number),
        card_id=CARD,
        tenant_id=TENANT,
        live=False,
    )
    return msgspec.structs.replace(made, **parts)


def evaluate(number: int = 1, **parts: Any) -> Evaluate:
    """A dry run of ``authorize()``."""
    made = Evaluate(
        id=an_id(0xE0_0000 + number),
        command_key=key(0xE0_0000 + number),
        card_id=CARD,
        tenant_id=TENANT,
        live=False,
        request=authorize(number),
    )
    return msgspec.structs.replace(made, **parts)


def read_headroom(number: int = 1, **parts: Any) -> ReadHeadroom:
    """The headroom for a purchase in an Irish shop."""
    made = ReadHeadroom(
        id=an_id(0xF0_0000 + number),
        command_key=key(0xF0_0000 + number),
        card_id=CARD,
        tenant_id=TENANT,
        live=False,
        request=authorize(number),
    )
    return msgspec.structs.replace(made, **parts)


def create_programme(number: int = 1, **parts: Any) -> CreateProgramme:
    """The creation of a programme; ``parts`` are members of its configuration."""
    id_ = parts.pop("id", an_id(0x60_0000 + number))
    return CreateProgramme(
        id=id_,
        command_key=key(0x60_0000 + number),
        config=programme(id=id_, created_ms=0, **parts),
        decision_secret_sealed=b"sealed",
    )


def change_programme(number: int = 1, **changes: Any) -> ChangeProgramme:
    """A change of a programme; ``changes`` are the new values."""
    return ChangeProgramme(
        id=an_id(0x70_0000 + number),
        command_key=key(0x70_0000 + number),
        programme_id=changes.pop("programme_id", PROGRAMME),
        tenant_id=changes.pop("tenant_id", TENANT),
        live=changes.pop("live", False),
        changes=changes,
    )


def set_policy(number: int = 1, made: StandInPolicy | None = None, **parts: Any) -> SetStandInPolicy:
    """A new stand-in policy of a programme."""
    return SetStandInPolicy(
        id=an_id(0xB0_0000 + number),
        command_key=key(0xB0_0000 + number),
        programme_id=parts.pop("programme_id", PROGRAMME),
        tenant_id=parts.pop("tenant_id", TENANT),
        live=False,
        policy=made or policy(**parts),
    )


def ask(number: int = 1, **parts: Any) -> StandInRequest:
    """A request for 10.00 after a timeout, on a card with a declared balance of 500.00."""
    made = StandInRequest(an_id(0x10_0000 + number), CARD, 1_000, "EUR", "5411", "timeout", 50_000)
    return msgspec.structs.replace(made, **parts)


def grant_stand_ins(
    number: int, asks: tuple[StandInRequest, ...], programme_id: str = PROGRAMME
) -> GrantStandIns:
    """One command with the requests of several cards."""
    return GrantStandIns(
        id=an_id(0x90_0000 + number),
        command_key=key(0x90_0000 + number),
        programme_id=programme_id,
        asks=asks,
    )


def preview_stand_in(number: int, asked: StandInRequest, programme_id: str = PROGRAMME) -> PreviewStandIn:
    """A preview of the grant for one request."""
    return PreviewStandIn(
        id=an_id(0xA1_0000 + number),
        command_key=key(0xA1_0000 + number),
        programme_id=programme_id,
        ask=asked,
    )


def end_outage(number: int, outage_id: str, programme_id: str = PROGRAMME) -> EndOutage:
    """The end of an outage."""
    return EndOutage(
        id=an_id(0xA0_0000 + number),
        command_key=key(0xA0_0000 + number),
        programme_id=programme_id,
        outage_id=outage_id,
    )


def inputs(**parts: Any) -> Inputs:
    """The inputs of a decision on ``card()`` and ``account()`` at ``NOW_MS``."""
    return msgspec.structs.replace(
        decision_inputs(CommandContext(card(), account(), programme()), NOW_MS, ()), **parts
    )
