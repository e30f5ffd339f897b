"""Messages in the words of a command line."""

import pytest
from jax2onnx_cli._commands.export import command as export
from jax2onnx_cli._commands.generate import command as generate
from jax2onnx_cli._wording import in_options

SENTENCES = {
    "numbers": ("Fix it, specialize={'T': 1}.", "Fix it, --specialize T=1."),
    "something": ("specialize={'N': …} exports the other case.", "--specialize N=… exports the other case."),
    "texts": ("Say so: constraints=('T <= 64', 'B >= 2').", "Say so: --constraint 'T <= 64' --constraint 'B >= 2'."),
    "a list": ('assume=["finite"] promises it', "--assume finite promises it"),
    "a flag": ("x64=True keeps them", "--x64 keeps them"),
    "no option": ("functools.partial(fn, scale=2), shape=(3,)", "functools.partial(fn, scale=2), shape=(3,)"),
    "no value": ("states={0: f(1)}", "states={0: f(1)}"),
    "a comparison": ("constraints=('B == 2',) or B=2", "--constraint 'B == 2' or B=2"),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_arguments_are_options(name):
    text, expected = SENTENCES[name]
    assert in_options(text, export.params) == expected


def test_options_of_another_name():
    text = "Give roles={'mask': 'm'} and max_new_tokens=8; tokenizer='tokenizer.json' too."
    assert in_options(text, generate.params) == "Give --role mask=m and --count 8; --tokenizer tokenizer.json too."
