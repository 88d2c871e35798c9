"""The users of an installation under chaos: shoppers, API callers, endpoints, and an overload generator."""
