"""The examples of the API's reference: requests that were made, and what a running installation answered.

``python -m ops.reference`` makes them again, after a change of what the API takes or shows.
"""
