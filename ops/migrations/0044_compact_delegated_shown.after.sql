-- Hosts store decisions by programmes and in stand-in compactly from their next connection on (actors/journal/sql/shows_delegated.sql). The
-- release before would read such rows without their decider.

SET LOCAL lock_timeout = '500ms';

COMMENT ON FUNCTION full_decision IS 'The JSON of a compact decision of any decider: see compacted in engine/decision/compact.py.';
