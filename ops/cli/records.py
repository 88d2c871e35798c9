"""Commands about spends, cards and transactions, as a client of the API."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, get_args

import typer

from actors.vault import Vault
from ops.cli.options import (
    NEGATIVE,
    Json,
    Limit,
    Mode,
    Since,
    Var,
    client_of,
    instant,
    one_of,
    read_settings,
)
from ops.database.operator_acts import on_installation, operator_of, record_alone
from ops.supervision.installation import RUN_FILE, database
from stanchion.operations import PAGE_SIZE
from stanchion.records import ExportFormat, ExportKind

T = TypeVar("T")

EXPORT_KINDS: Final[tuple[Any, ...]] = get_args(ExportKind)
EXPORT_FORMATS: Final[tuple[Any, ...]] = get_args(ExportFormat)

app = typer.Typer()
cards = typer.Typer(help="Issued cards, newest first.", invoke_without_command=True)
app.add_typer(cards, name="cards")
transactions = typer.Typer(help="Transactions, newest first.", invoke_without_command=True)
app.add_typer(transactions, name="transactions")

ProgrammeId = Annotated[str | None, typer.Option("--programme", metavar="ID", help="Of this programme only.")]


@app.command()
def spend(
    amount: Annotated[str, typer.Argument(metavar="AMOUNT", help="A decimal amount, like 12.50.")],
    currency: Annotated[str | None, typer.Argument(metavar="CURRENCY", help="Default: the card's.")] = None,
    card: Annotated[
        str | None, typer.Option(metavar="ID", help="The card; default: the newest active card.")
    ] = None,
    merchant: Annotated[str, typer.Option(metavar="NAME", help="The merchant's name.")] = "Corner Grocer",
    mcc: Annotated[str, typer.Option(help="Merchant category code (ISO 18245).")] = "5411",
    country: Annotated[
        str | None, typer.Option(help="The merchant's country (ISO 3166-1 alpha-2); default: by currency.")
    ] = None,
    channel: Annotated[str, typer.Option(help="pos, ecommerce, atm or moto.")] = "pos",
    entry_mode: Annotated[
        str | None, typer.Option(help="contactless, chip, magstripe or manual; default: by channel.")
    ] = None,
    kind: Annotated[str, typer.Option(help="purchase or refund.")] = "purchase",
    scenario: Annotated[
        str | None, typer.Option(help="A scenario of the simulated network, like partial_approval.")
    ] = None,
    cvv2: Annotated[str | None, typer.Option(help="The three digits that the cardholder enters.")] = None,
    wait: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="Longest wait.")] = 20.0,
    as_json: Json = False,
    var: Var = None,
) -> None:
    """Spend on a test card over the simulated network: exit status 0 if approved, 3 if declined."""
    from ops.commands.spend import described, spending_card
    from ops.commands.spend import spend as send

    with client_of(var) as client:
        used = spending_card(client, card)
        fields = {
            "card_id": used["id"],
            "amount": {"amount": amount, "currency": currency or used["currency"]},
            "merchant_name": merchant,
            "merchant_country": country,
            "mcc": mcc,
            "channel": channel,
            "entry_mode": entry_mode,
            "kind": kind,
            "scenario": scenario,
            "cvv2": cvv2,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        decided = send(client, given, seconds=wait)
    print(json.dumps(decided) if as_json else "\n".join(described(decided, used)))
    if decided["decision"] != "approved":
        raise typer.Exit(NEGATIVE)


@cards.callback()
def list_cards(
    context: typer.Context,
    state: Annotated[str | None, typer.Option(help="In this state only, like active.")] = None,
    last4: Annotated[str | None, typer.Option(help="With these last four digits only.")] = None,
    programme: ProgrammeId = None,
    limit: Limit = 20,
    mode: Mode = "test",
    as_json: Json = False,
    var: Var = None,
) -> None:
    """List issued cards, newest first."""
    if context.invoked_subcommand is not None:
        return
    from ops.commands.cards import lines

    with client_of(var, mode) as client:
        page = client.cards.list(
            state=state, last4=last4, programme_id=programme, page_size=min(limit, PAGE_SIZE)
        )
        _print_rows(islice(page, limit), lines, as_json=as_json)


@cards.command("show")
def show_card(
    card_id: Annotated[str, typer.Argument(metavar="CARD_ID")],
    mode: Mode = "test",
    as_json: Json = False,
    var: Var = None,
) -> None:
    """Show a card with its balance."""
    from ops.commands.cards import described

    with client_of(var, mode) as client:
        card, balance = client.cards.get(card_id), client.cards.balance(card_id)
    print(json.dumps(card | {"balance": balance}) if as_json else "\n".join(described(card, balance)))


@transactions.callback()
def list_transactions(
    context: typer.Context,
    card: Annotated[str | None, typer.Option(metavar="ID", help="Of this card only.")] = None,
    programme: ProgrammeId = None,
    status: Annotated[str | None, typer.Option(help="In this status only, like cleared.")] = None,
    decision: Annotated[str | None, typer.Option(help="approved or declined.")] = None,
    reason: Annotated[str | None, typer.Option(help="With this decline reason only.")] = None,
    since: Since = None,
    limit: Limit = 20,
    mode: Mode = "test",
    as_json: Json = False,
    var: Var = None,
) -> None:
    """List transactions, newest first."""
    if context.invoked_subcommand is not None:
        return
    from ops.commands.transactions import lines

    filters: Any = {
        "card_id": card,
        "programme_id": programme,
        "status": status,
        "decision": decision,
        "decline_reason": reason,
    }
    with client_of(var, mode) as client:
        page = client.transactions.list(from_=instant(since), page_size=min(limit, PAGE_SIZE), **filters)
        _print_rows(islice(page, limit), lines, as_json=as_json)


@transactions.command("show")
def show_transaction(
    transaction_id: Annotated[str, typer.Argument(metavar="TRANSACTION_ID")],
    mode: Mode = "test",
    as_json: Json = False,
    var: Var = None,
) -> None:
    """Show a transaction with its history and the trace of its decision."""
    from ops.commands.transactions import described

    with client_of(var, mode) as client:
        found = client.transactions.get(transaction_id)
    print(json.dumps(found) if as_json else "\n".join(described(found)))


def _print_rows(rows: Iterable[T], lines: Callable[[Iterable[T]], list[str]], *, as_json: bool) -> None:
    """Print JSON lines while the rows arrive, or a table of all of them."""
    for line in map(json.dumps, rows) if as_json else lines(rows):
        print(line)


@cards.command("show-test")
def show_test(
    card_ids: Annotated[list[str] | None, typer.Argument(metavar="CARD_ID...")] = None,
    programme: Annotated[str | None, typer.Option(metavar="ID", help="All cards of this programme.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array.")] = False,
    var: Var = None,
) -> None:
    """Print number, expiry, track 2 and CVV2 of test cards, for a simulator of your own."""
    from ops.commands.show_cards import show_test as show_test_cards

    settings = read_settings(var)
    with database(settings) as dsn:
        vault = Vault.from_settings(settings, make=False)
        found = asyncio.run(show_test_cards(dsn, vault, card_ids or (), programme))
        shown = on_installation("show_test_cards", {"card_ids": [each.card_id for each in found]})
        asyncio.run(record_alone(dsn, operator_of(settings), shown))
    if as_json:
        print(json.dumps([asdict(each) for each in found], indent=2))
        return
    for each in found:
        print(f"{each.card_id}  {each.pan}  {each.exp_month:02d}/{each.exp_year}  {each.cvv2}  {each.track2}")


@app.command()
def export(
    kind_: Annotated[str, typer.Argument(metavar="KIND", help=f"One of {', '.join(EXPORT_KINDS)}.")],
    from_: Annotated[str, typer.Option("--from", help="An age like 30d, or an instant of ISO 8601.")],
    to: Annotated[str | None, typer.Option(help="The end of the window; default: now.")] = None,
    given_format: Annotated[str, typer.Option("--format", help="csv or jsonl.")] = "csv",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Default: KIND.FORMAT.")
    ] = None,
    mode: Annotated[str, typer.Option(help="test or live.")] = "test",
    var: Var = None,
) -> None:
    """Write transactions, ledger entries, decisions or stand-ins to a file, as a client of `run.json`."""
    from ops.commands.export import export as write_export
    from ops.commands.progress import progress_bar
    from ops.commands.resend import instant_of
    from stanchion import Client

    kind = one_of(EXPORT_KINDS, kind_, "KIND")
    format_ = one_of(EXPORT_FORMATS, given_format, "--format")
    now, run_file = datetime.now(UTC), read_settings(var).var_dir / RUN_FILE
    path = output or Path(f"{kind}.{format_}")
    window = {"from_": instant_of(from_, now), "to": instant_of(to or "0s", now)}
    with Client.of_installation(run_file, mode=mode) as client, progress_bar(sys.stderr) as bar:
        written = write_export(client, kind, format_=format_, path=path, progress=bar, **window)
    print(f"{path}: {written['rows']} rows as of {written['as_of']}")


@app.command()
def backtest(
    change: Annotated[Path, typer.Argument(metavar="CHANGE.json", help="The change, as the API takes it.")],
    programme: Annotated[str, typer.Option(metavar="ID", help="The change applies to all its cards.")],
    days: Annotated[int, typer.Option(min=1, max=92, help="The window: so many days until now.")] = 30,
    max_approved_lost: Annotated[
        str | None, typer.Option(metavar="PERCENT", help="Approvals that may be lost, like 0.5%.")
    ] = None,
    max_newly_approved: Annotated[
        str | None, typer.Option(metavar="PERCENT", help="Declines that may become approvals.")
    ] = None,
    assume_presented: Annotated[
        bool, typer.Option(help="The fate of purchases that only the change approves.")
    ] = True,
    mode: Annotated[str, typer.Option(help="test or live.")] = "test",
    var: Var = None,
) -> None:
    """Try a change of controls and rules on recorded decisions; exit 1 if a limit is exceeded."""
    from rich.console import Console

    from ops.commands import backtest as command
    from stanchion import Client

    limits = command.Limits(*map(command.parse_share, (max_approved_lost, max_newly_approved)))
    now, wanted, console = datetime.now(UTC), command.read_change(change), Console(highlight=False)
    window = tuple(
        f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in (now - timedelta(days=days), now + timedelta(seconds=1))
    )
    with Client.of_installation(read_settings(var).var_dir / RUN_FILE, mode=mode) as client:
        done = command.run(
            client,
            console,
            wanted,
            {"type": "programme", "id": programme},
            (window[0], window[1]),
            assume_presented=assume_presented,
        )
    command.report(console, done)
    broken = command.broken_limits(done, limits)
    if broken:
        raise command.BacktestError("; ".join(broken))


@app.command()
def settlement(
    programme: Annotated[str, typer.Option(metavar="ID", help="The programme.")],
    date: Annotated[str, typer.Option(metavar="YYYY-MM-DD", help="The day in the programme's time zone.")],
    mode: Annotated[str, typer.Option(help="test or live.")] = "test",
    var: Var = None,
) -> None:
    """Print the settlement report of a programme and day as JSON, as a client of `run.json`."""
    with client_of(var, mode) as client:
        print(json.dumps(client.settlement_reports.get(programme, date), indent=2))
