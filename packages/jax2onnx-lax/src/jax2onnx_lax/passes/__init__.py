"""Passes that recognise ONNX's operators in code that no composite reaches."""
