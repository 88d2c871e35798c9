"""What all operations have in common: admission, idempotency, paging, kinds of values."""
