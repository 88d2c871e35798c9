"""Failures that the command line reports in one line. Any other exception is a bug and prints a traceback."""

from __future__ import annotations

from typing import Final

from actors.cluster.environment import ClusterError
from actors.peers import PeerFailedError, PeerGoneError
from actors.primary import CannotConnectError
from actors.release import ReleaseError
from actors.settings import SettingsError
from actors.vault import VaultError
from ops.audit import AuditError
from ops.commands.archive import ArchiveError
from ops.commands.authentication_key import AuthenticationKeyError
from ops.commands.backtest import BacktestError
from ops.commands.custody import CustodyLogError
from ops.commands.decide import DecideError
from ops.commands.export import ExportError
from ops.commands.keys import KeysError
from ops.commands.kyc import KycError
from ops.commands.links import LinksCommandError
from ops.commands.logs import LogsError
from ops.commands.resend import ResendError
from ops.commands.show_cards import ShowCardsError
from ops.commands.spend import SpendError
from ops.database.clients import ClientError
from ops.database.key_check import KeyCheckError
from ops.database.migrate import MigrationError
from ops.database.users import UserError
from ops.demo import DemoError
from ops.embedded.local_https import LocalHttpsError
from ops.embedded.process import ServerError
from ops.supervision.control import ControlError
from ops.supervision.errors import UpError
from ops.supervision.installation import InstallationError
from ops.supervision.running_installation import RunningError
from stanchion import StanchionError

EXPECTED_FAILURES: Final = (
    ArchiveError,
    AuditError,
    AuthenticationKeyError,
    CannotConnectError,
    BacktestError,
    ClientError,
    UserError,
    ClusterError,
    ControlError,
    CustodyLogError,
    DecideError,
    DemoError,
    ExportError,
    InstallationError,
    KeyCheckError,
    KeysError,
    KycError,
    LinksCommandError,
    LocalHttpsError,
    LogsError,
    MigrationError,
    PeerFailedError,
    PeerGoneError,
    ReleaseError,
    ResendError,
    RunningError,
    ServerError,
    SettingsError,
    ShowCardsError,
    SpendError,
    StanchionError,
    UpError,
    VaultError,
)
