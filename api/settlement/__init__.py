"""Daily settlement reports of programmes."""
