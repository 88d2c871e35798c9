"""Identity verification: flows, states, what a case awaits, and how the given data are compared (contract,
section 10).

``flows`` says what each flow needs, ``states`` how a case moves, ``case`` is one case and its changes,
``facts`` what a provider is told and answers, ``names`` compares names, ``evaluation`` is the built-in
comparison and ``triggers`` the one of the test mode.
"""
