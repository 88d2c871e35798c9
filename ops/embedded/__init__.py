"""A real PostgreSQL and a real Redis from wheels, so that a newcomer needs Python and nothing else.

Both listen on loopback only, need a password, run in a session of their own (Ctrl-C reaches us first) and end
with the process that started them, however that one dies.
"""
