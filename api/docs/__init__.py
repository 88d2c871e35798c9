"""The API's description: OpenAPI 3.1 generated from the served operations, and pages that show it offline."""
