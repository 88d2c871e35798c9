"""The parts of the benchmark that must stand inside the system: a client in the Ray session, and the rival.

``loadtests`` drives them as processes of their own and sees the rest of the system from outside.
"""
