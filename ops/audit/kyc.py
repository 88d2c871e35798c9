"""What holds for KYC cases and for cardholders."""

from __future__ import annotations

from typing import Final

KYC: Final[dict[str, str]] = {
    "a case has custody of what its tokens name, and of nothing else": """
        SELECT k.id, k.tokens::jsonb = coalesce((
            SELECT jsonb_object_agg(v.field, v.token)
            FROM kyc_values v JOIN kyc_data_keys d USING (check_id, purpose)
            WHERE v.check_id = k.id AND d.wrapped IS NOT NULL), '{}')
        FROM kyc_checks k""",
    # What has just run out is shown a moment later.
    "a cardholder shows what their checks say": """
        SELECT h.id, coalesce(k.due, false) OR h.kyc_state IS NOT DISTINCT FROM
            CASE k.verdict WHEN 'passed' THEN k.verdict ELSE k.newest END
        FROM cardholders h LEFT JOIN (
            SELECT cardholder_id, (array_agg(state ORDER BY id DESC))[1] AS newest,
                (array_agg(state ORDER BY id DESC)
                    FILTER (WHERE state IN ('passed', 'failed')))[1] AS verdict,
                bool_or(state IN ('pending', 'passed') AND expires_at <= now()) AS due
            FROM kyc_checks GROUP BY cardholder_id) k ON k.cardholder_id = h.id""",
}
