"""The pictures of the README and the pages: ``python -m ops.pictures`` takes them in a browser from a running
``make demo KEEP=1``."""
