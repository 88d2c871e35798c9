"""Ray: the only package that speaks it. Processes, their names, their deaths, and calls between them."""
