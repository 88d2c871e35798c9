"""From samples to figures, and from figures to reports."""
