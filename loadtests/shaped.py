"""Load shapes for Locust. Name this file after the locustfile, separated by a comma; then the shape sets the
number of users, and Locust's own fields for it have no effect.
"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Final

from locust import LoadTestShape, User, events

from loadtests.users.shapes import SHAPES, users_at

SPAWN_PER_SECOND: Final = 50


@events.init_command_line_parser.add_listener
def add_options(parser: ArgumentParser) -> None:
    """Options of the shape."""
    parser.add_argument(
        "--shape", choices=tuple(SHAPES), default="steady", help="how the users' number moves"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="length of the run")
    parser.add_argument("--most-users", type=int, default=40, help="users at the height of the shape")


class Shape(LoadTestShape):
    """The shape that the options name."""

    def tick(self) -> tuple[int, float, list[type[User]]] | None:
        """The number of users, their spawn rate, and their kinds."""
        options = self.runner.environment.parsed_options
        users = users_at(options.shape, self.get_run_time(), options.seconds, options.most_users)
        if users is None:
            return None
        kinds = [kind for kind in self.runner.user_classes if options.only in ("", kind.kind)]
        return users, SPAWN_PER_SECOND, kinds
