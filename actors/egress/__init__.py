"""Outgoing HTTPS to addresses that customers name: webhook endpoints and decision endpoints.

A customer can name an address inside the operator's own network (server-side request forgery). So the URL is
parsed by a strict grammar, every address behind its host is checked, and the connection goes to an address
that was checked in the same call.
"""
