"""Links to networks and processors, as the edges report them."""
