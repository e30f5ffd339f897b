"""Running finished ONNX models of any producer: runtimes, sessions, verifying, bisecting, quantizing."""

__version__ = "0.1.0"
