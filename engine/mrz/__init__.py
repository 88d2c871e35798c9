"""Machine-readable zones of travel documents (ICAO Doc 9303, parts 3 to 6): reading, building, check digits.

This is our own code because the existing libraries have copyleft licences.
"""
