"""From a callable and input specifications to a jaxpr."""
