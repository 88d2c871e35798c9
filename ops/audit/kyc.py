"""Promises of KYC cases and cardholders."""

from __future__ import annotations

from typing import Final

KYC: Final[dict[str, str]] = {
    "a case's values in custody are those that its tokens name": """
        SELECT k.id, k.tokens::jsonb = coalesce((
            SELECT jsonb_object_agg(v.field, v.token)
            FROM kyc_values v JOIN kyc_data_keys d USING (check_id, purpose)
            WHERE v.check_id = k.id AND d.wrapped IS NOT NULL), '{}')
        FROM kyc_checks k""",
    # A check that has just expired may be shown with its old state for a moment.
    "a cardholder's KYC state follows from their checks": """
        SELECT h.id, coalesce(k.due, false) OR h.kyc_state IS NOT DISTINCT FROM
            CASE k.verdict WHEN 'passed' THEN k.verdict ELSE k.newest END
        FROM cardholders h LEFT JOIN (
            SELECT cardholder_id, (array_agg(state ORDER BY id DESC))[1] AS newest,
                (array_agg(state ORDER BY id DESC)
                    FILTER (WHERE state IN ('passed', 'failed')))[1] AS verdict,
                bool_or(state IN ('pending', 'passed') AND expires_at <= now()) AS due
            FROM kyc_checks GROUP BY cardholder_id) k ON k.cardholder_id = h.id""",
    # A running change may have reached only some cards. No card of a blocked cardholder is ever usable.
    "a card declines exactly while its cardholder is not active": """
        SELECT c.id, CASE WHEN h.status = 'active' THEN c.cardholder_active OR s.id IS NOT NULL
                OR EXISTS (SELECT FROM card_issues WHERE card_id = c.id)
            ELSE NOT c.cardholder_active END
        FROM cards c LEFT JOIN cardholders h ON h.id = c.cardholder_id
        LEFT JOIN cardholder_status_changes s ON s.cardholder_id = h.id
        WHERE c.state NOT IN ('terminated', 'lost', 'stolen')""",
}
