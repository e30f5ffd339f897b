"""The loop around a decoder: requests, sequences, beams, drafts, and the generator that writes them."""
