"""The HTTP side: server, connections, bodies, problems and headers. It knows no resource and no caller."""
