"""What a page of the console works with: the session, the API, the form, and the templates."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from api.access.permissions import PERMISSIONS, permit
from api.access.tokens import Caller
from api.console import templating
from api.console.api_calls import ConsoleApi, PageProblem, Problem
from api.console.editor.names import placed
from api.console.templating import NO_STORE, PATH, Addresses
from api.http.answers import json_bytes
from api.http.problems import Refusal
from api.services import Services
from engine.limits import CONSOLE_CURSORS_MAX, CONSOLE_NOTICE_CHARS_MAX

NOTICE_COOKIE: Final = "stanchion_notice"
NOTICE_SECONDS: Final = 60
PAGE_ROWS: Final = 25
_BAD_REQUEST: Final = 400
GROUPS: Final = ("", "Cards", "Programmes", "Money", "Developers", "Administration")
"""Groups of the navigation, in order."""


class Person(NamedTuple):
    """The user of a session."""

    id: str
    name: str
    email: str
    modes: tuple[str, ...]
    """The modes that the user may see."""


@dataclass(frozen=True)
class Session:
    """A signed-in browser: a user, or an API client in test mode."""

    id: str
    caller: Caller
    csrf: str
    """The token that every form of this session carries."""
    name: str
    """The name of the user or of the client."""
    tenant: str
    """The name of the tenant."""
    zone: str = "UTC"
    """The IANA time zone in which the session shows times."""
    person: Person | None = None
    """``None`` for a client."""


class Form(dict[str, str]):
    """The fields of a form; a field that is given several times has its last value."""

    def __init__(self, pairs: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(pairs)
        self.pairs = pairs
        """Names and values in the order of the form."""

    def all(self, name: str) -> list[str]:
        """Every value of a field, such as those of checkboxes with one name."""
        return [value for given, value in self.pairs if given == name]

    def text(self, name: str) -> str | None:
        """The value without surrounding spaces; ``None`` if it is empty or missing."""
        return self.get(name, "").strip() or None


class Pager(NamedTuple):
    """Links to the newer and the older page of a list; ``None`` where there is none."""

    newer: str | None
    older: str | None


class Listed(NamedTuple):
    """One page of a list with filters, or the problem of a filter."""

    rows: list[dict[str, Any]]
    pager: Pager
    problem: Problem | None
    status: int
    """The HTTP status of the page."""


Handler = Callable[[Request, "View"], Awaitable[Response]]


@dataclass(frozen=True)
class PageRoute:
    """One page, form target or fragment of the console."""

    path: str
    """Below ``/console``, such as ``/cards/{id}``; empty for the first page."""
    handler: Handler
    method: str = "GET"
    operation: str | None = None
    """The API operation without whose permission the route is refused and its link hidden."""
    label: str | None = None
    """The text of its link in the navigation, if it has one."""
    group: str = ""
    """The group of the link, one of ``GROUPS``."""


class NavigationLink(NamedTuple):
    """A link of the navigation."""

    label: str
    href: str
    current: bool


class View:
    """One request of a session to the console."""

    def __init__(
        self, request: Request, services: Services, session: Session, form: Form, pages: Sequence[PageRoute]
    ) -> None:
        self.request = request
        self.services = services
        self.session = session
        self.caller: Caller = session.caller
        self.person = session.person
        self.zone = session.zone
        self.api = ConsoleApi(request.app, session.caller, request, form.get("key"))
        self.url = Addresses(request).url
        self._form = form
        self._pages = pages

    @property
    def mode(self) -> str:
        """``test`` or ``live``."""
        return "live" if self.caller.live else "test"

    def form(self) -> Form:
        """The form that was sent. Its origin and its token have been checked."""
        return self._form

    def may(self, operation: str) -> bool:
        """Whether the caller may use the API operation of that name."""
        return may(self.caller, operation)

    async def paged(self, path: str, **query: Any) -> tuple[dict[str, Any], Pager]:
        """One page of a list of the API, and the links around it. The page's query holds the cursor
        ``after`` and, in ``back``, those of the pages before. Raises ``PageProblem``."""
        asked = self.request.query_params
        after, back = asked.get("after"), [each for each in asked.get("back", "").split(".") if each]
        found = await self.api.require(path, {"limit": PAGE_ROWS, "starting_after": after, **query})
        newer = None if after is None else self._turned(back[-1] if back else None, back[:-1])
        older = None
        if found["has_more"]:
            older = self._turned(found["next_cursor"], [*back, *([after] if after else [])])
        return found, Pager(newer, older)

    async def listed(self, path: str, **query: Any) -> Listed:
        """As ``paged``; a filter that the API refuses becomes the list's problem, so that its form is shown
        with the reason. Raises ``PageProblem`` for other problems."""
        try:
            found, pager = await self.paged(path, **query)
        except PageProblem as raised:
            if raised.problem.status != _BAD_REQUEST:
                raise
            return Listed([], Pager(None, None), raised.problem, _BAD_REQUEST)
        return Listed(found["data"], pager, None, 200)

    def _turned(self, after: str | None, back: Sequence[str]) -> str:
        """The address of this page with other cursors."""
        query = dict(self.request.query_params) | {
            "after": after,
            "back": ".".join(back[-CONSOLE_CURSORS_MAX:]),
        }
        return "?" + urlencode({name: value for name, value in query.items() if value})

    def html(self, template: str, *, status: int | None = None, **values: Any) -> Response:
        """A page or a fragment. Without ``status``, it has the status of ``problem``, or 200. Templates also
        have ``view``, ``session``, ``caller``, ``person``, ``may``, ``csrf``, ``navigation`` and ``notice``,
        and the functions of ``templating.html``."""
        problem = values.get("problem")
        if status is None:
            status = 200 if problem is None else problem.status
        notice = unquote(self.request.cookies.get(NOTICE_COOKIE, ""))[:CONSOLE_NOTICE_CHARS_MAX]
        given = {
            "view": self,
            "session": self.session,
            "caller": self.caller,
            "person": self.person,
            "may": self.may,
            "csrf": self.session.csrf,
            "navigation": self._navigation(),
            "notice": notice or None,
        }
        response = templating.html(
            template, self.request, status=status, zone=self.zone, values=given | values
        )
        if notice:
            response.delete_cookie(NOTICE_COOKIE, path=self.url())
        return response

    def form_page(
        self,
        template: str,
        form: Mapping[str, Any],
        problem: Problem | None = None,
        *,
        names: Mapping[str, Any] | None = None,
        **values: Any,
    ) -> Response:
        """The page of a form with nested names (``editor/parts.html``). Its template has ``form``, the
        fields; ``faults``, the problem's sentences by field; and ``form_key``, the idempotency key to send
        again if the outcome of the refused form is unknown. ``names`` replaces ``form`` where the API's
        members differ."""
        return self.html(
            template,
            form=form,
            problem=problem,
            faults={} if problem is None else placed(problem.errors, form if names is None else names),
            form_key=self._form.get("key") if problem is not None and problem.leaves_doubt else None,
            **values,
        )

    def json(self, value: Any) -> Response:
        """Data for a script of the page."""
        return Response(json_bytes(value), 200, NO_STORE, "application/json")

    def problem(self, problem: Problem) -> Response:
        """The page that shows a problem on its own."""
        return self.html("problem.html", problem=problem)

    def redirect(self, path: str = "", *, notice: str | None = None) -> Response:
        """A redirect (303) to a path below the console; the page there shows ``notice`` once."""
        response = RedirectResponse(self.url(path), 303, NO_STORE)
        if notice:
            response.set_cookie(
                NOTICE_COOKIE,
                quote(notice[:CONSOLE_NOTICE_CHARS_MAX]),
                max_age=NOTICE_SECONDS,
                path=self.url(),
                secure=self.request.scope["scheme"] == "https",
                httponly=True,
                samesite="lax",
            )
        return response

    def _navigation(self) -> Mapping[str, Sequence[NavigationLink]]:
        """The links that the session may follow, by group."""
        here = self.request.scope["path"].removeprefix(PATH)
        shown = [each for each in self._pages if each.label and self._allowed(each)]
        current = max((each.path for each in shown if _is_at(here, each.path)), key=len, default=None)
        links: dict[str, list[NavigationLink]] = {group: [] for group in GROUPS}
        for each in shown:
            link = NavigationLink(each.label or "", self.url(each.path), each.path == current)
            links[each.group].append(link)
        return {group: each for group, each in links.items() if each}

    def _allowed(self, page: PageRoute) -> bool:
        return page.operation is None or self.may(page.operation)


def _is_at(here: str, path: str) -> bool:
    """Whether the page at ``here`` belongs to the navigation link to ``path``."""
    return here == path or (path != "" and here.startswith(f"{path}/"))


def may(caller: Caller, operation: str) -> bool:
    """Whether ``caller`` may use the API operation of that name."""
    try:
        permit(PERMISSIONS[operation], caller)
    except Refusal:
        return False
    return True


def problem_of(refusal: Refusal) -> Problem:
    """A refusal as the problem that the API would answer."""
    kind = refusal.kind
    return Problem(kind.status, kind.slug, kind.title, refusal.detail or kind.meaning, tuple(refusal.errors))
