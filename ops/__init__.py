"""Operating Stanchion: the command line, start-up and supervision, migrations, embedded servers, audits,
drills.

``cli.py`` is the ``stanchion`` command. ``commands`` holds the work of its commands, ``supervision`` runs an
installation, ``database`` changes the database's schema, roles and clients, and ``embedded`` starts
PostgreSQL, Redis and HTTPS servers. This package may use every other one; nothing imports it.
"""
