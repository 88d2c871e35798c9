"""The processes of an installation: owners of cards and programmes, their journal, the ISO 8583 edge, webhooks.

Imports go downwards only: ``boot > cluster > network | webhooks > outbox > shards > router > cards |
programmes > journal > vault | egress > database > metrics | settings`` (``pyproject.toml`` has the full list).
Only ``actors.cluster`` imports Ray, so everything else runs in a plain test.
"""
