"""What keeps a fault from showing anything."""


class NotInjectedError(Exception):
    """The fault did not happen, so nothing has been shown. The message is one line."""
