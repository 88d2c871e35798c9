"""A folder for ``PYTHONPATH``: Python imports ``sitecustomize`` from it at start."""
