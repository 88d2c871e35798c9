"""The kinds of problems in three tables: requests, resources, service. ``api.http.problems`` joins them."""
