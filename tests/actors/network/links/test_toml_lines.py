"""Fields of an array of tables are found in the text, in every way in which TOML can write them."""

from __future__ import annotations

import pytest

from actors.network.links.toml_lines import line_of

TEXT = """\
# links
[[links]]
name = "one"
port = 1  # port = 2

[links.tls]
cert = "a"

[[ links ]]
"name" = "two"
tls = { cert = "b", key = "c" }
allow = [
    "10.0.0.0/8",
]
tls.ca = "d"

[other]
port = 3
"""


@pytest.mark.parametrize(
    ("index", "field", "line"),
    [
        (0, "name", 3),
        (0, "port", 4),
        (0, "tls", 6),
        (0, "tls.cert", 7),
        (0, "tls.key", 6),
        (0, "mode", 2),
        (0, "", 2),
        (1, "name", 10),
        (1, "tls.cert", 11),
        (1, "tls.ca", 15),
        (1, "allow", 12),
        (1, "port", 9),
        (5, "port", 1),
    ],
)
def test_line_of_each_field(index: int, field: str, line: int) -> None:
    assert line_of(TEXT, "links", index, field) == line
