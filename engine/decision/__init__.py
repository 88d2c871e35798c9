"""The decision on one authorization: the order of the rules, and the stored form of its inputs."""
