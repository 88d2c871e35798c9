"""Commands that receive, decide and deliver: events, decision requests, signatures."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from ops.cli.options import Var, client_of, read_settings
from ops.commands.decision_behaviours import BEHAVIOURS

app = typer.Typer()
events = typer.Typer(help="Past events.", no_args_is_help=True)
app.add_typer(events, name="events")


@app.command()
def listen(
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Event type; may be repeated; default: all.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 = a free one.")] = 0,
    forward_to: Annotated[
        str | None, typer.Option(metavar="URL", help="Forward deliveries to this URL, and return its status.")
    ] = None,
    fail: Annotated[int, typer.Option(min=0, help="Answer this many deliveries with 500 first.")] = 0,
    raw: Annotated[bool, typer.Option("--raw", help="Print bodies only, one per line.")] = False,
    var: Var = None,
) -> None:
    """Receive, verify and print the events of the running installation, until Ctrl-C."""
    from ops.commands.listen import listen as listen_for_events

    listen_for_events(
        read_settings(var).var_dir,
        types=types or ["*"],
        port=port,
        fail=fail,
        forward_to=forward_to,
        raw=raw,
    )


@app.command()
def decide(
    answer: Annotated[str, typer.Option(help=f"How to answer: {', '.join(BEHAVIOURS)}.")] = "approve",
    programme: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="The programme to decide for; default: a programme created for this."
        ),
    ] = None,
    secret: Annotated[
        str | None, typer.Option(envvar="DECISION_SECRET", help="The programme's decision_secret.")
    ] = None,
    approve_up_to: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="Approve at most this amount, partially where possible."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 = a free one.")] = 0,
    var: Var = None,
) -> None:
    """Serve a programme's decision endpoint and print the requests to it, until Ctrl-C."""
    from ops.commands.decide import decide as decide_for_programme

    if answer not in BEHAVIOURS:
        raise typer.BadParameter(f"one of {', '.join(BEHAVIOURS)}", param_hint="--answer")
    decide_for_programme(
        read_settings(var).var_dir,
        answer,
        programme_id=programme,
        secret=secret,
        approve_up_to=approve_up_to,
        port=port,
    )


@app.command()
def verify(
    header: Annotated[str, typer.Option(help="The value of X-Platform-Signature.")],
    secret: Annotated[
        list[str], typer.Option(envvar="WEBHOOK_SECRET", help="Signing secret; may be repeated.")
    ],
    file: Annotated[str, typer.Argument(help="The body, byte for byte; - is standard input.")] = "-",
    any_time: Annotated[bool, typer.Option("--any-time", help="Accept signatures of any age.")] = False,
) -> None:
    """Check the signature of a stored delivery: exit status 0 if it is valid, else 1."""
    from ops.commands.verify import verify_delivery

    try:
        verify_delivery(file, header, secret, any_time=any_time)
    except OSError as failure:
        raise typer.BadParameter(f"cannot be read: {failure.strerror}", param_hint="FILE") from None
    print("The signature is good.")


@events.command()
def resend(
    endpoint: Annotated[str, typer.Option(help="Id of the webhook endpoint.")],
    since: Annotated[str, typer.Option(help="An age like 30m, 2h or 3d, or an instant of ISO 8601.")],
    until: Annotated[str | None, typer.Option(help="The end of the window; default: now.")] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Event type; may be repeated; default: all.")
    ] = None,
    mode: Annotated[str, typer.Option(help="test or live.")] = "test",
    var: Var = None,
) -> None:
    """Deliver past events to one endpoint again, as the first admin client of `run.json`."""
    from ops.commands.resend import instant_of
    from ops.commands.resend import resend as resend_events

    now = datetime.now(UTC)
    window = instant_of(since, now), None if until is None else instant_of(until, now)
    with client_of(var, mode) as client:
        number = resend_events(
            client, endpoint, since=window[0], until=window[1], types=types or (), on_event=print
        )
    print(f"{number} event{'' if number == 1 else 's'} will be delivered again.")
