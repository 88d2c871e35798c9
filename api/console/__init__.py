"""The console: one page at ``/console`` that shows a tenant what happens on its cards, as it happens.

It is made here, from its own files, and asks nobody else for anything. Whoever signs in with a client's
credentials sees what that client may read, and changes nothing.
"""
