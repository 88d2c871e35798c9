"""The ``stanchion`` command; ``python -m ops`` runs it without its script."""


def main() -> None:
    """Entry point. An interrupt (Ctrl-C) gives exit status 130, as in shells."""
    try:
        # The import takes half a second, and Ctrl-C may arrive in that time.
        from ops.cli import main as run

        run()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
