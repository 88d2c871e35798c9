"""Permissions of operations: scope, role and mode, in one table. An operation without an entry is an error.

The API description takes its security requirements from the same table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from api.access.tokens import Caller
from api.http.problems import Refusal
from engine.scopes import REVEAL, ROLES, SCOPES, Role, includes


@dataclass(frozen=True)
class Permission:
    """Scope, lowest role and mode that an operation demands of its caller."""

    scope: str
    role: Role = "user"
    test_mode_only: bool = False


def _simulation(verb: str) -> Permission:
    return Permission(f"simulations:{verb}", test_mode_only=True)


PERMISSIONS: Final[dict[str, Permission]] = {
    "create_program": Permission("programs:write"),
    "list_programs": Permission("programs:read"),
    "get_program": Permission("programs:read"),
    "update_program": Permission("programs:write"),
    "get_stip_policy": Permission("stip:read"),
    "set_stip_policy": Permission("stip:write"),
    "list_stip_activity": Permission("stip:read"),
    "list_outages": Permission("stip:read"),
    "create_card_product": Permission("card_products:write"),
    "list_card_products": Permission("card_products:read"),
    "get_card_product": Permission("card_products:read"),
    "update_card_product": Permission("card_products:write"),
    "retire_card_product": Permission("card_products:write"),
    "create_cardholder": Permission("cardholders:write"),
    "list_cardholders": Permission("cardholders:read"),
    "get_cardholder": Permission("cardholders:read"),
    "update_cardholder": Permission("cardholders:write"),
    "delete_cardholder": Permission("cardholders:write", "admin"),
    "create_card": Permission("cards:write"),
    "list_cards": Permission("cards:read"),
    "get_card": Permission("cards:read"),
    "update_card": Permission("cards:write"),
    "replace_card": Permission("cards:write"),
    "get_card_balance": Permission("cards:read"),
    "evaluate_card": Permission("cards:read"),
    "get_card_headroom": Permission("cards:read"),
    "get_declared_balance": Permission("stip:read", "admin"),
    "declare_balance": Permission("stip:write", "admin"),
    "create_reveal_session": Permission(REVEAL),
    "compute_cvv2": Permission("cards:write", test_mode_only=True),
    "create_simulated_load": _simulation("write"),
    "create_simulated_spend": _simulation("write"),
    "list_simulated_spends": _simulation("read"),
    "get_simulated_spend": _simulation("read"),
    "increment_simulated_spend": _simulation("write"),
    "reverse_simulated_spend": _simulation("write"),
    "clear_simulated_spend": _simulation("write"),
    "expire_simulated_spend": _simulation("write"),
    "create_simulated_clearing": _simulation("write"),
    "create_kyc_check": Permission("kyc:write"),
    "list_kyc_checks": Permission("kyc:read"),
    "get_kyc_check": Permission("kyc:read"),
    "submit_kyc_data": Permission("kyc:write"),
    "review_kyc_check": Permission("kyc:write", "admin"),
    "create_capture_session": Permission("kyc:write"),
    "list_transactions": Permission("transactions:read"),
    "get_transaction": Permission("transactions:read"),
    "update_transaction": Permission("transactions:write"),
    "replay_transaction": Permission("transactions:read"),
    "create_export": Permission("exports:write"),
    "list_exports": Permission("exports:read"),
    "get_export": Permission("exports:read"),
    "create_backtest": Permission("rules:write"),
    "list_backtests": Permission("rules:read"),
    "get_backtest": Permission("rules:read"),
    "cancel_backtest": Permission("rules:write"),
    "list_backtest_flips": Permission("rules:read"),
    "download_backtest_flips": Permission("rules:read"),
    "get_settlement_report": Permission("transactions:read"),
    "list_accounts": Permission("accounts:read"),
    "get_account": Permission("accounts:read"),
    "list_ledger_entries": Permission("accounts:read"),
    "create_transfer": Permission("accounts:write", "admin"),
    "list_transfers": Permission("accounts:read"),
    "get_transfer": Permission("accounts:read"),
    "reverse_transfer": Permission("accounts:write", "admin"),
    "create_authorization_rule": Permission("rules:write"),
    "list_authorization_rules": Permission("rules:read"),
    "get_authorization_rule": Permission("rules:read"),
    "update_authorization_rule": Permission("rules:write"),
    "list_authorization_rule_versions": Permission("rules:read"),
    "shadow_authorization_rule": Permission("rules:write"),
    "activate_authorization_rule": Permission("rules:write"),
    "retire_authorization_rule": Permission("rules:write"),
    "get_authorization_rule_report": Permission("rules:read"),
    "list_events": Permission("events:read"),
    "get_event": Permission("events:read"),
    "list_event_types": Permission("events:read"),
    "redeliver_event": Permission("events:write"),
    "create_webhook_endpoint": Permission("webhooks:write"),
    "list_webhook_endpoints": Permission("webhooks:read"),
    "get_webhook_endpoint": Permission("webhooks:read"),
    "update_webhook_endpoint": Permission("webhooks:write"),
    "delete_webhook_endpoint": Permission("webhooks:write"),
    "rotate_webhook_secret": Permission("webhooks:write"),
    "list_webhook_deliveries": Permission("webhooks:read"),
    "send_test_event": Permission("webhooks:write"),
    "create_client": Permission("clients:write", "owner"),
    "list_clients": Permission("clients:read", "owner"),
    "get_client": Permission("clients:read", "owner"),
    "revoke_client": Permission("clients:write", "owner"),
    "rotate_client_secret": Permission("clients:write", "owner"),
    "create_user": Permission("users:write", "owner"),
    "list_users": Permission("users:read", "owner"),
    "get_user": Permission("users:read", "owner"),
    "update_user": Permission("users:write", "owner"),
    "invite_user": Permission("users:write", "owner"),
    "disable_user": Permission("users:write", "owner"),
    "enable_user": Permission("users:write", "owner"),
    "reset_user_totp": Permission("users:write", "owner"),
    "end_user_sessions": Permission("users:write", "owner"),
    "list_audit_log": Permission("audit:read", "admin"),
    "list_links": Permission("links:read", "admin"),
}

assert all(each.scope in SCOPES and each.role in ROLES for each in PERMISSIONS.values())


def permit(permission: Permission, caller: Caller) -> None:
    """Raise ``Refusal`` 403 unless ``caller`` has the scope, the role and the mode."""
    if permission.scope not in caller.scopes:
        challenge = f'Bearer error="insufficient_scope", scope="{permission.scope}"'
        raise Refusal(
            "insufficient-scope",
            f"The operation needs the scope {permission.scope}.",
            headers={"WWW-Authenticate": challenge},
        )
    if not includes(caller.role, permission.role):
        raise Refusal("role-not-allowed")
    if permission.test_mode_only and caller.live:
        raise Refusal("test-mode-only")
