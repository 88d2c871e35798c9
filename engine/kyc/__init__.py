"""Identity verification: flows, states, cases, and the comparison of applicants' data.

``flows`` lists the inputs of each flow, ``states`` the legal moves, ``case`` holds one case and its changes,
``facts`` the input and the answer of a provider, ``names`` compares names, ``evaluation`` is the built-in
provider and ``triggers`` the provider of test mode. The rules are in ``ops/docs/KYC.md``.
"""
