"""From a jaxpr to nodes."""
