"""An image, a compose file and a chart. ``validate.py`` shows them to the validators of their formats."""
