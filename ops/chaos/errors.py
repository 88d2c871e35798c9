"""Why a fault shows nothing."""


class NotInjectedError(Exception):
    """The fault could not be injected, so the round shows nothing. The message is one line."""
