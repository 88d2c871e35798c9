"""Servers that Stanchion starts on this machine: PostgreSQL and Redis from wheels, and local HTTPS receivers.

A newcomer needs only Python. PostgreSQL and Redis listen on loopback only, need a password, run in their own
session (so that Ctrl-C reaches the supervisor first) and end with the process that started them.
"""
