"""The console: one page at ``/console`` that shows a tenant's card activity live.

It is rendered here from bundled files and loads no external resources. Users sign in with a client's
credentials. They see only data that the client may read, and cannot change any.
"""
