"""Models in fewer bits, by the quantizers that ONNX Runtime ships."""
