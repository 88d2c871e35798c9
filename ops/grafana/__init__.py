"""Grafana dashboards as code: `make dashboards` writes ``ops/grafana/json`` for import into Grafana.

The builders come from Grafana's own SDK, a development dependency; a running Stanchion does not need them.
"""
