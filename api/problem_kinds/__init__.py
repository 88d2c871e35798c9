"""The kinds of problems in three tables: requests, resources and the service. ``api.problems`` joins them."""
