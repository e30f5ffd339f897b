"""`python -m jax2onnx_cli`, which is the command `jax2onnx`."""

import sys

from jax2onnx_cli.app import main

if __name__ == "__main__":
    sys.exit(main())
