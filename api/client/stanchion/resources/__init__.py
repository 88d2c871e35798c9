"""The operations of each kind of resource. Spec section 4 and the API's own description say what they do."""
