"""Links: the connections to networks and processors, as ``links.toml`` lists them.

``file`` reads the list. ``actors.network.edge`` runs one link, ``actors.network.link_set`` all links of a
process. A link listens (``listening``) or connects (``connecting``). ``management`` speaks 0800 and 0810,
``guard`` and ``screening`` refuse messages that a link may not send, ``mac`` verifies and adds MACs.
"""
