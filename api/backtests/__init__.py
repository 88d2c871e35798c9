"""Back-tests: the effect of a change of controls and rules on recorded decisions."""
