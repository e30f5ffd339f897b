"""The plugin contract: what plugins declare, how they are found, and the errors of the project."""
