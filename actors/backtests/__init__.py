"""Back-tests: the tasks that read histories, live them (``engine.backtests``) and store the results."""
