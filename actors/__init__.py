"""The processes of an installation: owners of cards and programmes, journal, ISO 8583 edge, webhooks.

Imports go downwards only: ``boot > cluster > network | webhooks > outbox > shards > router > cards |
programmes > journal > vault | egress > database > metrics | settings``. The full list is in
``pyproject.toml``. Only ``actors.cluster`` imports Ray, so everything else runs in a plain test.
"""
