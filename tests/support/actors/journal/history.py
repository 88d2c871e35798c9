"""A random history of commands on four cards."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from engine.commands import Advise, Command, Expire, Present, Reverse, reference_of_message
from engine.currencies import MerchantAmount
from tests.support.actors.journal.cases import EVERY_CONTROL
from tests.support.engine.build import (
    TENANT,
    an_id,
    authorize,
    change_card,
    change_programme,
    create_card,
    create_programme,
    declare_balance,
    key,
    load,
    replace_card,
    set_cardholder_status,
    transfer,
    wire,
)
from tests.support.engine.rules import (
    change_card_rule,
    change_rule,
    condition,
    create_card_rule,
    create_rule,
)

ABROAD = MerchantAmount(1_631, "JPY", "0.00613")


def commands(dice: random.Random) -> list[Command]:
    """Four cards, two of them on one account, and commands of all kinds on them."""
    issued = [
        create_card(1),
        create_card(2, account_id=create_card(1).account_id, opens_account=False, controls=EVERY_CONTROL),
        create_card(3, 5),
        create_card(4, account_id=None, opens_account=False),
    ]
    history: list[Command] = [*issued, *rule_commands([each.id for each in issued])]
    for number in range(1, 500):
        card_id = dice.choice(issued).id
        history.append(dice.choice((opening_command, follow_up))(number, card_id, dice))
    replacement = replace_card(1, card_id=issued[1].id)
    history += [replacement, authorize(501, card_id=replacement.id), authorize(502, card_id=issued[1].id)]
    return history


def rule_commands(cards: list[str]) -> list[Command]:
    """Rules in all states: those of the cards decide, and the one of the second card moves with it."""
    large, larger = condition("amount", "gt", 1_000), condition("amount", "gt", 2_500)
    programme_id = create_programme().id
    return [
        *(create_card_rule(number, larger, card_id=card_id) for number, card_id in enumerate(cards, 1)),
        create_card_rule(5, large, card_id=cards[0], state="shadow"),
        change_card_rule(5, 1, card_id=cards[0], name="Twice in one batch"),
        change_card_rule(5, 2, card_id=cards[0], when=(condition("amount", "gte", 900),)),
        change_card_rule(4, card_id=cards[3], state="retired"),
        create_rule(6, large, programme_id=programme_id, state="draft"),
        change_rule(6, programme_id=programme_id, state="active"),
    ]


def opening_command(number: int, card_id: str, dice: random.Random) -> Command:
    """A command without a reference."""
    scheme = wire(number, network_txn_id=f"N{number}" if number % 2 else None)
    return dice.choice(
        (
            authorize(number, card_id=card_id, amount_minor=dice.randrange(3_000), wire=scheme),
            authorize(number, card_id=card_id, kind="refund", amount_minor=dice.randint(1, 500)),
            declare_balance(number, card_id=card_id, amount_minor=number),
            set_cardholder_status(number, card_id=card_id, active=number % 2 == 0),
            authorize(number, card_id=card_id, cvv2=dice.choice(("match", "mismatch"))),
            authorize(number, card_id=card_id, partial_allowed=True, amount_minor=9_000),
            authorize(number, card_id=card_id, wire=scheme, merchant_amount=ABROAD),
            load(number, card_id=card_id),
            transfer(number, card_id=card_id, account_id=create_card(1).account_id, amount_minor=number),
            change_card(number, card_id=card_id, state=dice.choice(("active", "suspended"))),
            change_card(number, card_id=card_id, controls=EVERY_CONTROL[: dice.randrange(9)]),
            change_programme(number, programme_id=create_programme().id, name=f"N{number % 7}"),
        )
    )


def follow_up(number: int, card_id: str, dice: random.Random) -> Command:
    """A command that references an earlier message or an unknown one."""
    named = reference_of_message(key(max(1, number - dice.randint(1, 40))))
    about: dict[str, Any] = {"id": an_id(0x80_0000 + number), "command_key": key(0x80_0000 + number)}
    about |= {"card_id": card_id}
    wired: dict[str, Any] = about | {"fingerprint": key(number), "wire": wire(number), "references": (named,)}
    sale: dict[str, Any] = {"amount_minor": dice.randint(1, 900), "currency": "EUR", "mcc": "5411"}
    sale |= {"merchant_name": "Shop", "merchant_country": "IE"}
    sale |= {"merchant_amount": dice.choice((None, ABROAD))}
    paper: dict[str, Any] = {"arn": "1", "sequence": number, "final": dice.random() < 0.6}
    kind = dice.choice(("increment", "reverse", "reverse", "present", "present", "advise", "expire", "sweep"))
    made: dict[str, Callable[[], Command]] = {
        "increment": lambda: authorize(0x80_0000 + number, card_id=card_id, references=(named,)),
        "reverse": lambda: Reverse(
            **wired, remaining_minor=dice.choice((None, 100)), remaining_currency="JPY"
        ),
        "present": lambda: Present(**wired, **sale, **paper, kind=dice.choice(("purchase", "refund"))),
        "advise": lambda: Advise(**wired, **sale, channel="pos", approved=dice.random() < 0.8),
        "expire": lambda: Expire(**about, tenant_id=TENANT, references=(named,)),
        "sweep": lambda: Expire(**about),
    }
    return made[kind]()
