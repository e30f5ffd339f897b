"""A pass that makes `RotaryEmbedding` of rotations of pairs of features."""
