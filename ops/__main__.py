"""``python -m ops`` is the ``stanchion`` command, also where its script is not installed."""

from ops.cli import main

if __name__ == "__main__":
    main()
