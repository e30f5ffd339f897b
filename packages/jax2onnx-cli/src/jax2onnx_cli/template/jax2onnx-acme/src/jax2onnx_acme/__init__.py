"""ONNX export for acme."""
