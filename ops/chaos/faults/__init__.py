"""The faults that ``make chaos`` injects, one module for each part of the system that they hit."""
