-- Tombstones count for 30 days; older ones are deleted, the oldest first.
CREATE INDEX tombstones_age ON tombstones (recorded_at);
