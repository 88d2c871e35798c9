"""The wire: ISO 8583:1987 in all-ASCII, cut, decoded and translated without doing any I/O.

``framing`` cuts frames out of a byte stream, ``codec`` turns a frame into a ``Message`` and back by the
table in ``spec``, ``reading`` and ``elements`` read single fields and what is nested inside them,
``identity`` tells which message it is and which one it is about, ``content`` says what a request holds,
``translate`` makes commands of it, ``respond`` makes responses of answers, ``acquirer`` and
``acquirer_follow_ups`` build the other side's messages, and ``matching`` pairs responses with requests.
"""
