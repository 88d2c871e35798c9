"""The vision host: a separate application on its own port for hosted capture sessions.

It serves applicants, who have no client and no bearer token: the capture session's token is the whole
authorization. It hands what they do to the identity-verification component and maps the answers back.
"""
