"""Grafana's dashboards as code: `make dashboards` writes ``ops/grafana/json``, which Grafana is given.

The builders are Grafana's own and a tool of development; running Stanchion does not need them.
"""
