"""The ``stanchion`` command; ``python -m ops`` is the same, also where its script is not installed."""


def main() -> None:
    """Entry point. Exit status 130 when it is interrupted (Ctrl-C), as shells have it."""
    try:
        # Loading it takes half a second, in which somebody may think better of it.
        from ops.cli import main as run

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
