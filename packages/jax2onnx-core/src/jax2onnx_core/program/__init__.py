"""The export, and the program that it gives."""
