"""The API's description: OpenAPI 3.1 made from the operations that are served, and a page that shows it
without the Internet.
"""
