"""Card products: what cards of a kind have in common."""
