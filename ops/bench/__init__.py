"""The parts of the benchmark that must run inside the system: a client in the Ray session, and the rivals.

``loadtests`` runs them as separate processes and sees the rest of the system from outside.
"""
