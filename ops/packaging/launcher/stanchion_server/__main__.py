"""``python -m stanchion_server`` is the ``stanchion`` command."""

from stanchion_server import main

if __name__ == "__main__":
    main()
