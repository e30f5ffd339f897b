"""Several programs over one file of weights: saved, loaded and run together."""
