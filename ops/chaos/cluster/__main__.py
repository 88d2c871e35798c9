"""Drills on a cluster under load: a node joins, all processes restart, a node is drained, the head dies and
comes back, a node dies. No decision may fail or get lost.

    python -m ops.chaos.cluster [--folder DIR] [--cards 24] [--only WORD]

The drills use the command lines of CLUSTER.md to set the cluster up and to take a node out, with PostgreSQL
and Redis beside it. All nodes run on one machine (``ops.chaos.environment.nodes``), so network partitions
between nodes are not covered.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import tempfile
from pathlib import Path

import structlog

from ops.chaos.cluster.drills import run
from ops.chaos.report import ChaosReport


def main() -> None:
    """Run the drills, print the report, and exit with status 0 only if everything held."""
    parser = argparse.ArgumentParser(
        prog="python -m ops.chaos.cluster", description="Cluster drills under load."
    )
    parser.add_argument("--cards", type=int, default=24)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--folder", default="", help="keep logs and the database in this folder")
    parser.add_argument("--only", default="", metavar="WORD", help="drills with WORD in their names")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    report = ChaosReport(options.seed)
    with tempfile.TemporaryDirectory(prefix="stanchion-cluster-") as temporary:
        folder = Path(options.folder or temporary)
        asyncio.run(run(folder, options.cards, options.seed, report, options.only))
    report.show()
    sys.exit(0 if report.passed else 1)


if __name__ == "__main__":
    main()
