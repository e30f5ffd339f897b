"""Facts about ONNX's operators and element types, and about the values of a graph, that hold in any model."""
