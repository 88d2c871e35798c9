"""The vision host: a separate application on its own port for hosted capture sessions.

It serves applicants, who have no client and no bearer token: the token of the capture session is their only
authorization. It passes their requests to the identity-verification component and maps its answers to HTTP.
"""
