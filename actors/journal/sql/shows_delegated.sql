-- Whether every process reads compact decisions by programmes and in stand-in: the upgrade that introduced them is complete.
SELECT EXISTS (SELECT FROM schema_migrations WHERE name = 'compact_delegated_shown')
