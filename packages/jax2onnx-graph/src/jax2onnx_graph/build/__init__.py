"""Writing nodes, constants and names."""
