"""The fast path of ``POST /v1/simulated-spends``, the hot route.

Its checks, their order and its handler are those of ``OperationRoute``, without FastAPI in between, which
costs more time than the rest of such a request.
"""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from api.access.admission import Admission
from api.access.permissions import PERMISSIONS
from api.access.quotas import Quotas
from api.http.json_body import read_json
from api.http.scope import OPERATION
from api.http.validation import validated
from api.operations.call import Call
from api.services import Services
from api.simulations.card_states import CardStates
from api.simulations.inputs import SpendInput
from api.simulations.spends import PATH, create_simulated_spend

NAME = create_simulated_spend.__name__


class SpendFastPath:
    """ASGI middleware inside ``Boundary``, which answers its refusals. All other requests go to ``app``."""

    def __init__(
        self, app: ASGIApp, services: Services, quotas: Quotas, admission: Admission, cards: CardStates
    ) -> None:
        self._app = app
        self._services = services
        self._quotas = quotas
        self._admission = admission
        self._cards = cards

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        scope[OPERATION] = NAME
        request = Request(scope, receive)
        caller = await self._admission.admit(request, PERMISSIONS[NAME])
        given = validated(SpendInput, await read_json(request))
        call = Call(self._services, self._quotas, caller)
        work = partial(create_simulated_spend, given, call, self._cards)
        response = await self._admission.handle(caller, work)
        await response(scope, receive, send)
