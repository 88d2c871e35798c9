"""Machine-readable zones of travel documents (ICAO Doc 9303, parts 3 to 6): reading, building, check digits.

Written by hand: the libraries that exist are under licences that would bind users.
"""
