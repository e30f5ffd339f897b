"""Passes that compute mixtures of experts only for the tokens that each expert is chosen for."""
