"""ONNX export for ripple."""
