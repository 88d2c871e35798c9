"""The version of this release: of both packages, of the API's description, and of the chart."""

__version__ = "0.2.0"
