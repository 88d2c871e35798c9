"""ISO 8583: framing, codecs, profiles and translation, without I/O.

- ``profile`` is everything that distinguishes one network's messages; ``profiles`` has those that are
  shipped and reads those of files. ``message_types``, ``response_codes``, ``private_data``, ``header`` and
  ``framing`` are its parts; ``edition_1993`` translates messages of the 1993 version.
- ``text_codec`` and ``mixed_codec`` decode and encode messages by the ``formats`` in ``tables``; ``values``
  has the encodings of single values.
- ``reading`` and ``elements`` read single fields and the values nested in them, ``card_data`` reads
  verification data (``track2``, ``emv_tlv``), ``content`` reads a whole request.
- ``cryptography`` is the interface to the keys of cards; ``mac`` computes message authentication codes.
- ``identity`` derives command keys, fingerprints and the references to earlier messages.
- ``translate`` builds commands from requests; ``respond`` builds responses from replies; ``fast_decline``
  refuses without decoding.
- ``terminal``, ``acquirer`` and ``acquirer_follow_ups`` build the messages of the other side; ``matching``
  pairs responses with requests.
"""
