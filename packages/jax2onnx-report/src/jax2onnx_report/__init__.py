"""Reports on ONNX models for people: a summary, the difference of two models, an HTML page."""

__version__ = "0.1.0"
