-- Whether the view events shows rows of two events: the upgrade that introduced them is complete.
SELECT EXISTS (SELECT FROM schema_migrations WHERE name = 'event_pairs_shown')
