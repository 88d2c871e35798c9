"""The decision on one authorization: its rules in order, and the stored form of its inputs."""
