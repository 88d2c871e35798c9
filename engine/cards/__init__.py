"""What the owner of a card holds in memory: the card, its funding account, holds and authorizations."""
