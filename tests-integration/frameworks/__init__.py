"""The same twelve kinds of layers in five libraries: kind → callable and inputs."""
