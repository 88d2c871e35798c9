"""The parts of the Locust load test that need neither Locust nor a server."""
