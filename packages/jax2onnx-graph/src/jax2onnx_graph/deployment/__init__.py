"""What runs a finished model: its states, sessions that keep them, and profiles of its shapes."""
