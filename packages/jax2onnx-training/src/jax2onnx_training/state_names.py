"""The names of the programs of a training, and of its states, which are the first parts of the names of inputs."""

from __future__ import annotations

__all__ = [
    "EVALUATE",
    "INFER",
    "KEY",
    "LOOP",
    "LOSS",
    "OPTIMIZER",
    "PARAMETERS",
    "STATES",
    "STEP",
    "STEPS",
    "VARIABLES",
    "new_name",
]

#: The programs of a training.
STEP = "step"
LOOP = "loop"
EVALUATE = "evaluate"
INFER = "infer"
#: The states, of which a step takes those that it needs.
PARAMETERS = "parameters"
OPTIMIZER = "optimizer"
VARIABLES = "variables"
KEY = "key"
STEPS = "steps"
STATES = (PARAMETERS, OPTIMIZER, VARIABLES, KEY, STEPS)
#: The output of a step that is its loss.
LOSS = "loss"


def new_name(state: str) -> str:
    """The name of the output that is the next value of a state."""
    return f"new_{state}"
