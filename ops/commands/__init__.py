"""The work of the ``stanchion`` commands, one module for each."""
