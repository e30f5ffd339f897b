"""Decoders: their inputs, outputs and states, and the interface that runtimes of text models expect."""
