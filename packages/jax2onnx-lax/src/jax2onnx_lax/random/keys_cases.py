"""Cases of `keys`: integers are compared exactly, floats within the rounding of log and erf_inv."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax2onnx_core import Case
from jax2onnx_graph.build.builder import DtypeLike

from jax2onnx_lax._case_helpers import Expect, Fn, at_most

__all__ = ["cases"]

_WORDS = {
    "threefry2x32": np.array([123456789, 4000000000], np.uint32),
    "rbg": np.array([1, 2, 4294967294, 4294967295], np.uint32),
    "unsafe_rbg": np.array([7, 11, 13, 17], np.uint32),
}

# The largest number of operators that draw bits: Threefry is one function of the model, Philox is written out.
_MOST = {"threefry2x32": 15, "rbg": 220, "unsafe_rbg": 220}
_THREEFRY = {"jax2onnx.random.threefry2x32": 1}


def _keyed(fn: Fn, impl: str = "threefry2x32") -> Fn:
    """The function of a typed key, as a function of the key's words, which are an input of the model."""
    return lambda words: fn(random.wrap_key_data(words, impl=impl))


def _case(name: str, fn: Fn, covers: tuple[str, ...] = (), impl: str = "threefry2x32", *, expect: Expect) -> Case:
    """A function of one typed key."""
    covers = covers or ("random_wrap", "random_bits", "threefry2x32", "iota_2x32_shape")
    return Case(name, _keyed(fn, impl), [_WORDS[impl]], covers, expect)


def _generator(algorithm: str, dtype: DtypeLike, shape: tuple[int, ...]) -> Case:
    number = vars(lax.RandomAlgorithm)[f"RNG_{algorithm}"]
    name = f"rng_bit_generator_{algorithm}_{np.dtype(dtype).name}_{'x'.join(map(str, shape))}"
    return Case(
        name,
        lambda words: lax.rng_bit_generator(words, shape, dtype, number),
        [_WORDS["rbg"]],
        ("rng_bit_generator",),
        at_most(220),
    )


_per_key = [
    case
    for impl, most in _MOST.items()
    for case in (
        _case(
            f"split_{impl}",
            lambda k: random.key_data(random.split(k, (2, 3))),
            ("random_split", "random_unwrap"),
            impl,
            expect=at_most(most),
        ),
        _case(
            f"fold_in_{impl}",
            lambda k: random.key_data(random.fold_in(k, 7)),
            ("random_fold_in",),
            impl,
            expect=at_most(10),
        ),
        _case(f"bits_{impl}", lambda k: random.bits(k, (3, 5)), ("random_bits",), impl, expect=at_most(most)),
        _case(f"bits_8_{impl}", lambda k: random.bits(k, (7,), np.uint8), ("random_bits",), impl, expect=at_most(most)),
        _case(f"randint_{impl}", lambda k: random.randint(k, (9,), -3, 10), impl=impl, expect=at_most(3 * most)),
        _case(f"normal_{impl}", lambda k: random.normal(k, (50,)), impl=impl, expect=at_most(60 + most)),
    )
]

cases = [
    *_per_key,
    Case("raw_key_input", lambda k: random.bits(k, (4,)), [_WORDS["threefry2x32"]], ("random_bits", "random_wrap"),
         expect=at_most(10, **_THREEFRY)),
    Case("seed", lambda s: random.key_data(random.key(s)), [np.int32(42)], ("random_seed", "random_unwrap"),
         expect="Cast -> BitwiseAnd -> Cast -> Unsqueeze -> Concat"),
    Case(
        "known_key",
        lambda x: x + random.uniform(random.key(0), (3,), x.dtype),
        [("B", 3)],
        ("random_bits",),
        "Add",
        doc="Random numbers of a key that is known become constants.",
    ),
    _case("clone", lambda k: random.key_data(random.clone(k)), ("random_clone",), expect="Identity"),
    _case("uniform", lambda k: random.uniform(k, (4, 5), minval=-1, maxval=3),
          expect=at_most(20, **_THREEFRY)),
    _case("uniform_float16", lambda k: random.uniform(k, (4, 5), np.float16),
          expect=at_most(20, **_THREEFRY)),
    _case("permutation", lambda k: random.permutation(k, 17),
          expect=at_most(30, **_THREEFRY)),
    _case("permutation_of_rows", lambda k: random.permutation(k, jnp.arange(12).reshape(4, 3), independent=True),
          expect=at_most(30, **_THREEFRY)),
    _case("choice_without_replacement", lambda k: random.choice(k, 10, (4,), replace=False),
          expect=at_most(30, **_THREEFRY)),
    _case("bernoulli", lambda k: random.bernoulli(k, 0.3, (20,)),
          expect=at_most(20, **_THREEFRY)),
    _case("categorical", lambda k: random.categorical(k, jnp.array([[1.0, 2, 3], [0, 0, 1]])),
          expect=at_most(30, If=1, **_THREEFRY)),
    _case("truncated_normal", lambda k: random.truncated_normal(k, -1, 2, (20,)),
          expect=at_most(80, **_THREEFRY)),
    _case("gamma", lambda k: random.gamma(k, jnp.array([0.3, 1.0, 5.0])), ("random_gamma",),
          expect=at_most(70, Loop=1, **_THREEFRY)),
    _case("log_gamma", lambda k: random.loggamma(k, jnp.array([0.3, 1.0, 5.0])), ("random_gamma",),
          expect=at_most(80, Loop=1, **_THREEFRY)),
    _case("gamma_rbg", lambda k: random.gamma(k, jnp.array([0.3, 5.0])), ("random_gamma",), "rbg",
          expect=at_most(290, Scan=1, **_THREEFRY)),
    _case("dirichlet", lambda k: random.dirichlet(k, jnp.array([1.0, 2, 3]), (2,)), ("random_gamma",),
          expect=at_most(90, Loop=1, **_THREEFRY)),
    _case("multinomial", lambda k: random.multinomial(k, 10.0, jnp.array([0.2, 0.3, 0.5])),
          expect=at_most(10, Scan=1, **_THREEFRY)),
    _case("poisson", lambda k: random.poisson(k, jnp.array([0.5, 3.0, 20.0])),
          expect=["Loop -> Sub -> Where", "Loop -> Cast -> IsNaN -> Where -> Clip -> Cast -> Where"]),
    _case("vmap_over_keys", lambda k: jax.vmap(lambda k: random.bits(k, (3,)))(random.split(k, 4)),
          expect=at_most(20, **_THREEFRY)),
    _case(
        "vmap_fold_in",
        lambda k: random.key_data(jax.vmap(random.fold_in, (None, 0))(k, jnp.arange(3))),
        ("random_fold_in",),
        expect=at_most(10, **_THREEFRY),
    ),
    _case(
        "scan_over_keys",
        lambda k: lax.scan(lambda k, _: (random.split(k)[0], random.bits(k, (2,))), k, None, length=3)[1],
        expect="Loop",
    ),
    Case(
        "symbolic_size",
        lambda words, x: random.bits(random.wrap_key_data(words), x.shape),
        [_WORDS["threefry2x32"], ("B", 3)],
        ("random_bits", "iota_2x32_shape"),
        expect=at_most(20, **_THREEFRY),
    ),
    *(
        Case(
            f"key_type_{impl}",
            lambda seed, impl=impl: random.bits(random.split(random.key(seed, impl=impl))[1], (5,)),
            [np.int32(42)],
            (impl,),
            at_most(most),
        )
        for impl, most in (("philox4x32", 470), ("threefry4x32", 800), ("philox2x32", 250))
    ),
    *(
        _generator(algorithm, dtype, shape)
        for algorithm in ("DEFAULT", "THREE_FRY", "PHILOX")
        for dtype, shape in ((np.uint32, (5, 7)), (np.uint32, ()), (np.uint8, (3, 5)), (np.uint32, (4, 6)))
    ),
    *(
        Case(
            f"rng_bit_generator_symbolic_{algorithm}_{number}",
            lambda words, x, algorithm=algorithm, number=number: lax.rng_bit_generator(
                words, (x.shape[0], number), algorithm=vars(lax.RandomAlgorithm)[f"RNG_{algorithm}"]
            ),
            [_WORDS["rbg"], ("B",)],
            ("rng_bit_generator",),
            at_most(230),
        )
        for algorithm in ("DEFAULT", "THREE_FRY")
        for number in (1, 4, 5)
    ),
]  # fmt: skip
