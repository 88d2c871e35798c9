"""Card products: templates for cards."""
