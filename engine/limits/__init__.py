"""The limits of Stanchion with their reasons, in one module for each area.

This package holds what protects the system from overload, what clients and operators can observe, and what
several packages must agree on. Settings (``actors.settings``) may change some of it. Constants that concern
one module only stay at the head of that module: pauses and poll intervals, the shape of one input, and
lengths that a format or an algorithm fixes.

Import limits from this package, not from its modules.
"""

from __future__ import annotations

from engine.limits import relations as relations
from engine.limits.access import *
from engine.limits.api import *
from engine.limits.backtests import *
from engine.limits.cards import *
from engine.limits.connections import *
from engine.limits.console import *
from engine.limits.deadlines import *
from engine.limits.egress import *
from engine.limits.exports import *
from engine.limits.identity import *
from engine.limits.links import *
from engine.limits.owners import *
from engine.limits.processes import *
from engine.limits.programmes import *
from engine.limits.rules import *
from engine.limits.simulated_network import *
from engine.limits.users import *
from engine.limits.vision import *
from engine.limits.webhooks import *
from engine.limits.wire import *
