"""Outgoing HTTPS to addresses that customers name: webhook endpoints and decision endpoints.

Whoever names an address can name one inside our own network, so nothing here trusts a name: the URL is read
by a strict grammar, every address behind its host is judged, and the connection is made to an address that
was judged in the same call (contract, section 9).
"""
