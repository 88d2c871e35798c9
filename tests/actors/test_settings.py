"""Settings are validated with errors of one line, and passed to other processes without the master key."""

from __future__ import annotations

import base64
import pickle
from ipaddress import ip_network
from pathlib import Path

import pytest

from actors.settings import PREFIX, Settings, SettingsError, unknown_variables

KEY = base64.b64encode(bytes(32)).decode()


def test_unset_settings_have_their_defaults() -> None:
    settings = Settings.load()
    assert (settings.api_port, settings.vision_port, settings.iso8583_port, settings.metrics_port) == (
        8000,
        8001,
        8583,
        9464,
    )
    assert settings.auto_clear_seconds == 30
    assert settings.rate_live_per_second == 100
    assert not settings.enable_gateway
    for unset in (settings.database_url, settings.redis_url, settings.ray_address, settings.master_key):
        assert unset is None
    assert settings.var_dir == Path.cwd() / "var"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("API_PORT", "eighty-thousand"),
        ("API_PORT", "80000"),
        ("HOSTS", "0"),
        ("ENABLE_GATEWAY", "perhaps"),
        ("AUTO_CLEAR_SECONDS", "-1"),
        ("DATABASE_URL", "mysql://user:hidden@db/x"),
        ("REDIS_URL", "http://hidden"),
        ("EGRESS_ALLOW", "10.0.0.0/8,hidden"),
        ("EGRESS_ALLOW", "10.0.0.1/8"),
        ("TRUSTED_PROXIES", "hidden"),
        ("EGRESS_CA_FILE", "/hidden/file.pem"),
        ("MASTER_KEY", "hidden"),
        ("MASTER_KEY", f"a:{KEY},b:{KEY}"),
        ("LOG_LEVEL", "hidden"),
        ("DOCS_BASE_URL", "hidden.example"),
        ("OTLP_ENDPOINT", "hidden:4318"),
        ("OTLP_HEADERS", "hidden"),
        ("OTLP_HEADERS", "authorization=Bearer x,=hidden"),
        ("TRACE_RATIO", "1.5"),
    ],
)
def test_invalid_setting_gives_one_line_that_names_it(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(PREFIX + name, value)
    with pytest.raises(SettingsError) as failure:
        Settings.load()
    message = str(failure.value)
    assert message.startswith(f"{PREFIX}{name}: ")
    assert "\n" not in message
    assert "hidden" not in message
    assert value not in message


def test_networks_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANCHION_EGRESS_ALLOW", "127.0.0.0/8, ::1/128")
    assert Settings.load().egress_allow == (ip_network("127.0.0.0/8"), ip_network("::1/128"))


def test_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANCHION_DATABASE_URL", "")
    assert Settings.load().database_url is None


def test_settings_are_passed_to_processes_without_the_master_key(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = Settings.load(
        var_dir=tmp_path,
        database_url="postgresql://u:p@h/d",
        egress_allow="10.0.0.0/8",
        master_key=KEY,
        hosts=3,
    )
    raw = settings.to_json()
    assert KEY.encode() not in raw
    # Received settings take precedence over the other process's environment; the key comes from there.
    monkeypatch.setenv("STANCHION_HOSTS", "7")
    monkeypatch.setenv("STANCHION_REDIS_URL", "redis://elsewhere")
    monkeypatch.setenv("STANCHION_MASTER_KEY", KEY)
    assert Settings.from_json(raw) == settings
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_changed_copy_is_validated() -> None:
    settings = Settings.load(hosts=2)
    assert settings.replace(hosts=4).hosts == 4
    with pytest.raises(SettingsError, match="STANCHION_HOSTS"):
        settings.replace(hosts=0)


def test_repr_does_not_reveal_secrets() -> None:
    settings = Settings.load(
        database_url="postgresql://u:hidden@h/d", redis_url="redis://:hidden@h", master_key=KEY
    )
    assert "hidden" not in repr(settings)
    assert KEY not in repr(settings)
    assert settings.database_dsn == "postgresql://u:hidden@h/d"
    assert settings.redis_dsn == "redis://:hidden@h"


def test_missing_database_address_is_an_error() -> None:
    with pytest.raises(SettingsError, match="STANCHION_DATABASE_URL"):
        _ = Settings.load().database_dsn


def test_misspelt_variables_are_found() -> None:
    environ = {
        "STANCHION_DATABSE_URL": "",
        "STANCHION_HOSTS": "",
        "STANCHION_TEST_DATABASE_URL": "",
        "PATH": "",
    }
    assert unknown_variables(environ) == ["STANCHION_DATABSE_URL"]
