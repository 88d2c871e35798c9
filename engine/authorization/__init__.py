"""The life of an authorization after the decision: effects, events, reversals, advices, presentments."""
