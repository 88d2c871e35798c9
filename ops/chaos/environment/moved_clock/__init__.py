"""On the path of processes whose clocks can be moved: ``sitecustomize`` is what Python looks for."""
