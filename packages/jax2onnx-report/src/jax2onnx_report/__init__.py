"""What an ONNX model is, for people: a summary, the difference of two models, an HTML page."""

__version__ = "0.1.0"
