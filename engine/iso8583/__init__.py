"""The wire: ISO 8583:1987 in all-ASCII, cut, decoded and translated without doing any I/O.

``framing`` cuts frames out of a byte stream, ``codec`` turns a frame into a ``Message`` and back by the
table in ``spec``, ``elements`` reads what is nested inside single fields, ``translate`` makes commands of
requests, ``respond`` makes responses of answers, ``acquirer`` speaks the other side, and ``matching`` pairs
responses with requests.
"""
