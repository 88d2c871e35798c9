"""The HTTP API: authentication, permissions, validation, and the form of the answers.

Each resource has a package with its models, its SQL and its handlers. Commands on cards and programmes go to
their owners (``actors``); every other write is a short transaction here, with its event row inside.
"""
