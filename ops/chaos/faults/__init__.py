"""The faults that ``make chaos`` injects, by the part that they hit."""
