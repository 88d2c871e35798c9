"""The examples of the API reference: requests to a running installation and its answers. ``python -m
ops.reference`` records them again after a change of the API."""
