"""Types of the API's answers. The client returns JSON bodies without conversion.

Amounts are decimal strings, instants ISO 8601 in UTC, ids UUIDs as text. New members may appear at any time.
"""

from __future__ import annotations

from stanchion.records.accounts import *
from stanchion.records.backtests import *
from stanchion.records.cards import *
from stanchion.records.clients import *
from stanchion.records.common import *
from stanchion.records.dry_runs import *
from stanchion.records.events import *
from stanchion.records.exports import *
from stanchion.records.kyc import *
from stanchion.records.links import *
from stanchion.records.programmes import *
from stanchion.records.rules import *
from stanchion.records.simulations import *
from stanchion.records.stand_in import *
from stanchion.records.transactions import *
from stanchion.records.users import *
