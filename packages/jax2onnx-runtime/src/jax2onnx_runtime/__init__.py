"""What happens to a finished ONNX model, of any producer: running, sessions, verifying, bisecting, quantizing."""

__version__ = "0.1.0"
