"""ISO 8583:1987 in all-ASCII: framing, codec and translation, without I/O.

- ``framing`` cuts frames out of a byte stream; ``codec`` decodes and encodes messages by ``spec``.
- ``reading`` and ``elements`` read single fields and the values nested in them, ``card_data`` reads
  verification data (``track2``, ``emv_tlv``), ``content`` reads a whole request.
- ``cryptography`` is the interface to the keys of cards; ``mac`` computes message authentication codes.
- ``identity`` derives command keys, fingerprints and the references to earlier messages.
- ``translate`` builds commands from requests; ``respond`` builds responses from replies; ``fast_decline``
  refuses without decoding.
- ``terminal``, ``acquirer`` and ``acquirer_follow_ups`` build the messages of the other side; ``matching``
  pairs responses with requests.
"""
