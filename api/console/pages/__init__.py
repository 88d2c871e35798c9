"""Pages of the console, one module for each group; each exports its routes as ``PAGES``."""
