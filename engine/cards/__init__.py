"""The state of a card in its owner's memory: the card, its funding account, holds and authorizations."""
