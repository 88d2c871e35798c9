"""The signed-in user's own page: zone, mode, password, one-time codes and sessions."""

from __future__ import annotations

from typing import Any, Final

import segno
from starlette.requests import Request
from starlette.responses import Response

from actors.vault import VaultError
from api.access.rate_limits import RateLimits
from api.console.api_calls import PageProblem
from api.console.sessions import (
    choose_mode,
    choose_zone,
    end_other_sessions,
    end_session,
    record_own_act,
    sessions_of,
)
from api.console.view import PageRoute, View, problem_of
from api.database.pool import Connection, connected, transaction
from api.http.problems import Refusal, not_found
from api.users.accounts import (
    Account,
    accept_code,
    account_of,
    disable_totp,
    enable_totp,
    locked_account,
    renew_recovery_codes,
    set_password,
)
from api.users.one_time_codes import as_text, new_totp_secret, setup_address, step_of
from api.users.passwords import Passwords, fault_of
from engine.ids import is_id
from engine.instant import zone_names
from engine.limits import PASSWORD_CHARS_MAX

SETUP_PURPOSE: Final = "user-totp-setup"
WRONG_CODE: Final = "This code is not accepted. Take the one that the authenticator shows now."
WRONG_PASSWORD: Final = "The current password is wrong."
DIFFERENT: Final = "The two passwords differ."


async def account_page(_request: Request, view: View) -> Response:
    """What the user can change."""
    return await _page(view)


async def _page(view: View, *, status: int = 200, **messages: str) -> Response:
    """The page; ``messages`` stand at the form whose name is their key."""
    account, sessions = None, []
    if view.person is not None:
        async with connected(view.services.pool) as connection:
            account = await account_of(connection, view.person.id)
        sessions = await sessions_of(view.services, view.person.id)
    return view.html(
        "account/account.html",
        status=status,
        account=account,
        sessions=sessions,
        zones=sorted(zone_names()),
        messages=messages,
    )


async def change_zone(_request: Request, view: View) -> Response:
    """Show times in another zone."""
    zone = view.form().get("zone", "")
    if zone not in zone_names():
        return await _page(view, status=400, zone="There is no such zone.")
    await choose_zone(view.services, view.session, zone)
    return view.redirect("/account", notice=f"Times are shown in the zone {zone}.")


async def change_mode(_request: Request, view: View) -> Response:
    """Show the other mode, from the first page on: objects of one mode do not exist in the other."""
    mode: Any = view.form().get("mode", "")
    if view.person is None or mode not in view.person.modes:
        raise not_found()
    await choose_mode(view.services, view.session, mode)
    return view.redirect(notice=f"You are now in {mode} mode.")


# --- password ---------------------------------------------------------------------------------------------


async def change_password(request: Request, view: View) -> Response:
    """Set another password, which ends the user's other sessions."""
    form, passwords = view.form(), _passwords(request)
    async with connected(view.services.pool) as connection:
        account = await _required(account_of(connection, _person(view)))
    if account.password_hash is not None:
        limits: RateLimits = request.app.state.rate_limits
        await limits.admit_password(request, account.email)
        current = form.get("current", "")[: PASSWORD_CHARS_MAX + 1]
        if not await passwords.verify(current, account.password_hash):
            await limits.count_failed_password(request)
            return await _page(view, status=400, password=WRONG_PASSWORD)
    password = form.get("password", "")
    fault = fault_of(password, account.email, account.name)
    if fault is None and password != form.get("again", ""):
        fault = DIFFERENT
    if fault is not None:
        return await _page(view, status=400, password=fault)
    stored = await passwords.hash(password)
    async with transaction(view.services.pool) as connection:
        known = await _required(locked_account(connection, account.id))
        if known.password_hash != account.password_hash:
            return await _page(view, status=409, password=WRONG_PASSWORD)
        await set_password(connection, account.id, stored)
        ended = await end_other_sessions(connection, view.session)
        await _record(connection, request, view, "set_password", {"password": "set", "sessions_ended": ended})
    return view.redirect("/account", notice="The password is changed. Your other sessions have ended.")


# --- one-time codes ---------------------------------------------------------------------------------------


async def set_up_totp(_request: Request, view: View) -> Response:
    """A new secret to scan. It is in force when a code of it was entered."""
    return _totp_page(view, new_totp_secret())


async def start_totp(request: Request, view: View) -> Response:
    """Require one-time codes from now on, and show the recovery codes."""
    form, services = view.form(), view.services
    try:
        context = _person(view).encode()
        secret = services.vault.open(SETUP_PURPOSE, bytes.fromhex(form.get("secret", "")), context)
    except (ValueError, VaultError):
        return view.redirect("/account/totp")
    code = "".join(form.get("code", "").split())
    step = step_of(secret, code, services.clock.now_ms(), 0) if code.isascii() else None
    if step is None:
        return _totp_page(view, secret, status=400, message=WRONG_CODE)
    async with transaction(services.pool) as connection:
        account = await _required(locked_account(connection, _person(view)))
        if account.totp_sealed is not None:
            # Another session was first: its secret stays in force.
            return view.redirect("/account")
        codes = await enable_totp(connection, services.vault, account, secret, step)
        await _record(connection, request, view, "enable_totp", {"totp_enabled": True})
    return view.html("account/recovery_codes.html", codes=codes)


def _totp_page(view: View, secret: bytes, *, status: int = 200, message: str | None = None) -> Response:
    person = view.person
    if person is None:
        raise not_found()
    picture = segno.make(setup_address(secret, person.email), error="m")
    return view.html(
        "account/totp.html",
        status=status,
        message=message,
        text=as_text(secret),
        picture=picture.svg_data_uri(scale=5, border=3, light="#fff"),
        sealed=view.services.vault.seal(SETUP_PURPOSE, secret, person.id.encode()).hex(),
    )


async def stop_totp(request: Request, view: View) -> Response:
    """Require one-time codes no more. It takes one of them."""
    async with transaction(view.services.pool) as connection:
        account = await _proved(connection, view)
        if account is not None:
            await disable_totp(connection, account)
            await _record(connection, request, view, "disable_totp", {"totp_enabled": False})
    if account is None:
        return await _page(view, status=400, totp=WRONG_CODE)
    return view.redirect("/account", notice="Signing in takes no one-time code any more.")


async def new_recovery_codes(request: Request, view: View) -> Response:
    """Replace the recovery codes, and show the new ones. It takes a one-time code."""
    async with transaction(view.services.pool) as connection:
        account = await _proved(connection, view)
        codes = None
        if account is not None:
            codes = await renew_recovery_codes(connection, view.services.vault, account)
            await _record(connection, request, view, "renew_recovery_codes", {"recovery_codes": len(codes)})
    if codes is None:
        return await _page(view, status=400, totp=WRONG_CODE)
    return view.html("account/recovery_codes.html", codes=codes)


async def _proved(connection: Connection, view: View) -> Account | None:
    """The locked account, if the form has one of its codes. A wrong code counts."""
    account = await _required(locked_account(connection, _person(view)))
    services = view.services
    code = view.form().get("code", "")
    accepted = await accept_code(connection, services.vault, account, code, services.clock.now_ms())
    return account if accepted else None


# --- sessions ---------------------------------------------------------------------------------------------


async def end_one_session(request: Request, view: View) -> Response:
    """End another session of the user."""
    session_id = request.path_params["id"].lower()
    if not is_id(session_id):
        raise not_found()
    async with transaction(view.services.pool) as connection:
        if not await end_session(connection, _person(view), session_id):
            raise not_found()
        await _record(connection, request, view, "end_session", {"sessions_ended": 1})
    return view.redirect("/account", notice="The session has ended.")


async def end_sessions(request: Request, view: View) -> Response:
    """End all other sessions of the user."""
    _person(view)
    async with transaction(view.services.pool) as connection:
        ended = await end_other_sessions(connection, view.session)
        if ended:
            await _record(connection, request, view, "end_session", {"sessions_ended": ended})
    return view.redirect("/account", notice=f"Other sessions that have ended: {ended}.")


# --- shared helpers ---------------------------------------------------------------------------------------


def _person(view: View) -> str:
    """The user's id. Raises ``PageProblem`` 404 for the session of a client."""
    if view.person is None:
        raise PageProblem(problem_of(not_found()))
    return view.person.id


async def _required(found: Any) -> Account:
    """The account. Raises ``Refusal`` 401 if the user has just been disabled."""
    account: Account | None = await found
    if account is None:
        raise Refusal("unauthorized")
    return account


async def _record(
    connection: Connection, request: Request, view: View, act: str, after: dict[str, Any]
) -> None:
    await record_own_act(connection, view.services, request, view.caller, act, after)


def _passwords(request: Request) -> Passwords:
    passwords: Passwords = request.app.state.passwords
    return passwords


PAGES: Final = (
    PageRoute("/account", account_page),
    PageRoute("/account/zone", change_zone, "POST"),
    PageRoute("/account/mode", change_mode, "POST"),
    PageRoute("/account/password", change_password, "POST"),
    PageRoute("/account/totp", set_up_totp),
    PageRoute("/account/totp", start_totp, "POST"),
    PageRoute("/account/totp/stop", stop_totp, "POST"),
    PageRoute("/account/recovery-codes", new_recovery_codes, "POST"),
    PageRoute("/account/sessions/{id}/end", end_one_session, "POST"),
    PageRoute("/account/sessions/end-others", end_sessions, "POST"),
)
