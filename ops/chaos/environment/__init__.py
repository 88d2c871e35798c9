"""The parts of the environment that faults change: processes, nodes, network, disk and clocks."""
