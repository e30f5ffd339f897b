"""Writing text with a model: which inputs and outputs make it a decoder, and the loop around it."""
