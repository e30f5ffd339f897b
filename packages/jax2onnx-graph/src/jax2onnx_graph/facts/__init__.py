"""What is true of ONNX's operators and element types, and of the values of a graph, whatever the model."""
