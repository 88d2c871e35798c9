"""Programme actors: a programme's configuration in memory, and with delegated decisions its outage and
exposure budget."""
