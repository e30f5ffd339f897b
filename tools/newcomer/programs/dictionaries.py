"""Inputs and outputs in dictionaries, with a keyword argument."""

import jax.numpy as jnp
import numpy as np
from jax2onnx_core import to_onnx


def control(sensors, *, gain):
    speed = sensors["wheels"].mean(-1)
    return {
        "throttle": jnp.clip(gain * (1 - speed), 0, 1),
        "brake": {"left": speed > 1, "right": sensors["distance"] < 2},
    }


inputs = {"wheels": ("time", 4), "distance": ("time",)}
program = to_onnx(control, [inputs], kwargs={"gain": ()})
print(program)
sensors = {"wheels": np.ones((2, 4), np.float32), "distance": np.array([1, 3], np.float32)}
print(program(sensors, gain=np.float32(0.5)))
