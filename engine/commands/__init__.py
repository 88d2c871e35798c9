"""Commands to the owners of cards and programmes; the caller chooses their ids and keys.

The ids of all rows that a command creates derive from its ``id`` (``engine.ids.derive``). A ``command_key``
(16 bytes) is executed at most once. The ``fingerprint`` (16 bytes) distinguishes a repeat from a different
request under the same key. Commands are msgpack between processes and JSON in the journal.
"""

from __future__ import annotations

from engine.commands.authorizations import *
from engine.commands.base import *
from engine.commands.cards import *
from engine.commands.earlier import *
from engine.commands.kinds import *
from engine.commands.programmes import *
from engine.commands.reads import *
from engine.commands.references import *
from engine.commands.transfers import *
