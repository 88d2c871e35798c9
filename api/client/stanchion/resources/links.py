"""Links to networks and processors."""

from __future__ import annotations

import builtins

from stanchion import records
from stanchion.operations import AnyTransport, Call, Resource, operation


class Links(Resource[AnyTransport]):
    """The states of links; for clients with the role ``admin``."""

    @operation("GET", "/v1/links")
    def list(self) -> Call[builtins.list[records.Link]]:
        """The links of this mode, each at every edge."""
        return Call(member="data")
