"""How ripple's layer and its primitive become ONNX operators."""

from jax2onnx_core import Call, Composites, Rules

rules = Rules()
composites = Composites()


@rules.lower("ripple_sawtooth")
def sawtooth(ctx, x):
    return ctx.op.Sub(x, ctx.op.Floor(x))


@composites.call("ripple:Damping.__call__", name="ripple.damping")
def damping(self, x):
    return Call(x, self.scale)


@rules.lower("ripple.damping")
def lower_damping(ctx, x, scale):
    return ctx.op.Mul(ctx.op.Softsign(x), scale)
