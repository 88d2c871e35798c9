"""The vision host: a separate application on its own port for hosted capture sessions (spec 4.7)."""
