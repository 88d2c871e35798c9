"""The issuer's own records on an object: its external reference and its metadata."""
