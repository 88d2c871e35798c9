"""Back-tests: recorded histories lived again under a changed set of controls (``ops/docs/BACKTESTS.md``).

Pure functions over the rows of the journal; ``actors.backtests`` reads the rows and stores the results.
"""
