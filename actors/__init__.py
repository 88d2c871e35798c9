"""Ownership: state in memory, order, durability and the loops that keep them.

Rooms import downwards only (``boot > cluster > network | webhooks > router | outbox > shard > cards |
programmes > journal > vault > metrics | settings``), and only ``actors.cluster`` speaks Ray, so everything
else runs in a plain test.
"""
