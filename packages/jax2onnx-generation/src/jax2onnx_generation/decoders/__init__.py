"""Decoders: their inputs, outputs and states, and the interface that runners of text models expect."""
