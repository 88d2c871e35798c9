"""Back-tests: the effect of a change of controls on recorded decisions."""
