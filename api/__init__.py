"""HTTP, and nothing but HTTP: who asks, what they may ask, whether it makes sense, and how the answer looks.

A family of operations is one file (or a small package): its models, its SQL and its handlers side by side.
What needs one order of events is asked of the owners (``actors``); everything else is a short transaction
here, with its event row inside.
"""
