"""Every failure that the command line tells in one line: none of them is a fault of ours."""

from __future__ import annotations

from typing import Final

from actors.cluster.environment import ClusterError
from actors.peers import PeerFailedError, PeerGoneError
from actors.settings import SettingsError
from actors.vault import VaultError
from ops.audit import AuditError
from ops.clients import ClientError
from ops.control import ControlError
from ops.decide import DecideError
from ops.demo import DemoError
from ops.embedded.process import ServerError
from ops.installation import InstallationError
from ops.key_check import KeyCheckError
from ops.keys import KeysError
from ops.kyc import KycError
from ops.local_https import LocalHttpsError
from ops.migrate import MigrationError
from ops.resend import ResendError
from ops.running import RunningError
from ops.up import UpError
from stanchion import StanchionError

EXPECTED_FAILURES: Final = (
    AuditError,
    ClientError,
    ClusterError,
    ControlError,
    DecideError,
    DemoError,
    InstallationError,
    KeyCheckError,
    KeysError,
    KycError,
    LocalHttpsError,
    MigrationError,
    PeerFailedError,
    PeerGoneError,
    ResendError,
    RunningError,
    ServerError,
    SettingsError,
    StanchionError,
    UpError,
    VaultError,
)
