"""A container image, a Compose file and a Helm chart; ``validate.py`` runs the validators of their
formats."""
