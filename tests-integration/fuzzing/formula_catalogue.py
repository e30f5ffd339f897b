"""The formulas that the passes of this repository make operators of, with their points of mutation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax2onnx_testing.values import Distribution

from fuzzing.formulas import Formula

__all__ = ["FORMULAS"]

_WEIGHTS = "(np.cos(np.arange({n}) * 1.7) / 2).reshape({shape}).astype(x.dtype)"


def _weights(*shape: int) -> str:
    """An expression for constant weights of the dtype of x."""
    n = 1
    for size in shape:
        n *= size
    return _WEIGHTS.format(n=n, shape=shape)


NORMALISATIONS = [
    Formula(
        "layer norm",
        {"x": "B T 8", "scale": "8", "bias": "8"},
        """
        mean = jnp.mean(x, {axis:-1|1|0|(1, 2)}, keepdims=True)
        d = {centred:x - mean|mean - x|x + mean|x}
        var = jnp.{moment:mean|sum|max|median}({square:d * d|jnp.abs(d)|d * x|d * d * d}, {axis2:-1|1}, keepdims=True)
        normal = d {divide:/|*} {root:jnp.sqrt|jnp.cbrt|jnp.exp}(var {plus:+|-} {epsilon:1e-5|0.0|-1e-5|1e-30|3.0|1e-5 * mean})
        return normal {scaled:*|/|+|-} scale {biased:+|-|*} bias
        """,
        forms=["LayerNormalization"],
        passes=["FuseLayerNorm"],
    ),
    Formula(
        "layer norm of two moments",
        {"x": "B T 8", "scale": "8"},
        """
        mean = jnp.mean(x, -1, keepdims=True)
        square = jnp.mean(x * {twice:x|(x + 1)}, -1, keepdims=True)
        var = jnp.maximum({floor:0.0|0.5|-1.0}, square {minus:-|+} mean * {other:mean|x|1})
        return (x - mean) * (lax.rsqrt(var + {epsilon:1e-6|0.0|1e-12}) * scale{row:|[:1]|[::-1]})
        """,
        forms=["LayerNormalization"],
        passes=["FuseLayerNorm"],
        excuses={"overflow in a normalisation": 1e18},
    ),
    Formula(
        "layer norm of nothing",
        {"x": "B C"},
        """
        d = x - x.mean({axis:-1|0}, keepdims=True)
        return d / jnp.sqrt(jnp.{moment:var|std}(x, {axis2:-1|0}, keepdims=True{ddof:|, ddof=1}) + {epsilon:1e-5|0})
        """,
    ),
    Formula(
        "RMS norm",
        {"x": "B T 8", "scale": "8"},
        """
        square = jnp.{moment:mean|sum|max}({square:x * x|jnp.abs(x)|x * x * x|x * scale}, {axis:-1|1|(1, 2)}, keepdims=True)
        root = {root:lax.rsqrt|jnp.sqrt|jnp.tanh}(square {plus:+|-} {epsilon:1e-6|0.0|-1e-6|1e-40|5.0|scale})
        return x {times:*|/|-} root {scaled:*|/|+} {scale:scale|(1 + scale)|(scale * scale)|scale[::-1]|scale[:1]}
        """,
        forms=["RMSNormalization"],
        passes=["FuseRmsNorm"],
    ),
    Formula(
        "group norm",
        {"x": "B H W 8", "scale": "8"},
        """
        groups = x.reshape(*x.shape[:3], {groups:4|2|8|1}, -1)
        mean = groups.mean({axes:(1, 2, 4)|(1, 2)|(2, 4)|(1, 2, 3, 4)}, keepdims=True)
        var = groups.var({axes2:(1, 2, 4)|(1, 2)}, keepdims=True)
        return ((groups - mean) {divide:/|*} jnp.sqrt(var + {epsilon:1e-6|0|1.0})).reshape(x.shape) * scale
        """,
    ),
    Formula(
        "instance norm",
        {"x": "B 3 H W"},
        """
        mean = x.mean({axes:(2, 3)|(1, 2)|3|(0, 2, 3)}, keepdims=True)
        return (x - mean) * lax.rsqrt(x.var({axes2:(2, 3)|3|(0, 2, 3)}, keepdims=True) + {epsilon:1e-5|0.0})
        """,
    ),
]

ACTIVATIONS = [
    Formula(
        "gelu",
        {"x": "B T"},
        "return {half:0.5|0.4|-0.5|1} * x {times:*|+} ({one:1|2|-1} {plus:+|-} lax.erf({other:x|-x|x * x} / {root:np.sqrt(2).astype(x.dtype)|2|-1.4142135}))",
        forms=["Gelu"],
        passes=["FuseGelu"],
    ),
    Formula(
        "approximate gelu",
        {"x": "B T"},
        """
        cubic = x {power:* x * x|* x|* x * x * x|} * {small:0.044715|0.0447|0.05}
        return x * {half:0.5|0.25} * ({one:1|0.5} {plus:+|-} jnp.tanh({root:0.7978845608|0.797|-0.7978845608} * (x + {cubic:cubic|x})))
        """,
        forms=["Gelu"],
        passes=["FuseGelu"],
    ),
    Formula(
        "jax gelu",
        {"x": "B T"},
        "return {scale:1|2|-1} * nn.gelu({operand:x|-x|x + 1}, approximate={is:True|False})",
        forms=["Gelu"],
    ),
    Formula(
        "logistic",
        {"x": "B T", "y": "B T"},
        "return {top:1|2|-1|x|y|0} / ({one:1|2|-1} {plus:+|-} jnp.{curve:exp|exp2|expm1}({sign:-|} {operand:x|y|(x * 2)}))",
        forms=["Sigmoid"],
        passes=["FuseSilu"],
    ),
    Formula(
        "silu",
        {"x": "B T"},
        "return x / ({one:1|2} + jnp.exp({sign:-|} {operand:x|(x + x)}))",
        forms=["Sigmoid"],
        passes=["FuseSilu"],
    ),
    Formula(
        "relu",
        {"x": "B T"},
        "return jnp.{extreme:maximum|minimum|fmax}({operand:x|-x}, {zero:0|0.0|-0.0|1|-1|jnp.nan|jnp.inf|-jnp.inf})",
        forms=["Relu"],
        passes=["FuseRelu"],
    ),
    Formula(
        "relu6",
        {"x": "B T"},
        "return jnp.{outer:minimum|maximum}(jnp.{inner:maximum|minimum}(x, {zero:0|1|-1|7|-0.0}), {six:6|0|-1|jnp.inf|jnp.nan|1e30|x})",
        forms=["Clip"],
        passes=["FuseRelu"],
    ),
    Formula(
        "hard swish",
        {"x": "B T"},
        "return {operand:x|-x|1} * jnp.clip(x {plus:+|-} {three:3|2|3.1}, {zero:0|-1}, {six:6|5|1}) / {divisor:6|5|-6|3}",
    ),
    Formula("hard sigmoid", {"x": "B T"}, "return nn.relu6(x + {three:3|2|0}) / {six:6|3|-6}"),
    Formula(
        "leaky relu",
        {"x": "B T"},
        "return jnp.where(x {more:>=|>|<|<=} {zero:0|1|-0.0|jnp.nan}, {right:x|-x|1}, {slope:0.01|-1|0|1|2|jnp.inf} * x)",
    ),
    Formula(
        "elu",
        {"x": "B T"},
        "return jnp.where(x {more:>|>=|<} {zero:0|1}, x, {alpha:1.0|2.0|-1|0} * jnp.expm1({inner:x|jnp.where(x > 0, 0, x)|-x}))",
    ),
    Formula(
        "softplus", {"x": "B T"}, "return jnp.{sum:logaddexp|maximum|add}({operand:x|-x|2 * x}, {zero:0|1|-1|-jnp.inf})"
    ),
    Formula(
        "hard tanh",
        {"x": "B T"},
        "return jnp.where(x > {one:1|2|-2}, {top:1|2}, jnp.where(x < {low:-1|1|0}, {bottom:-1|0|x}, x))",
    ),
    Formula("mish", {"x": "B T"}, "return x * jnp.tanh(nn.softplus({operand:x|-x|2 * x}))"),
    Formula("softsign", {"x": "B T"}, "return x / ({one:1|2|0|-1} + {abs:jnp.abs(x)|x|-x})"),
    Formula(
        "remainder",
        {"x": "int32 B T"},
        "return x {operator:%|//} {n:4|1|-4|0|2147483647|-2147483648}",
        forms=["Mod"],
        passes=["FuseMod"],
        dtypes=["float32"],
    ),
    Formula(
        "corrected remainder",
        {"x": "int32 B T", "y": "int32 B T"},
        """
        r = lax.rem(x, {n:np.int32(5)|np.int32(-5)|np.int32(1)|y})
        return jnp.where((r {less:<|>|<=} 0) {both:&|^} (r != {zero:0|1}), r {plus:+|-} {n2:5|4|-5}, {rest:r|x})
        """,
        dtypes=["float32"],
    ),
]

SOFTMAXES = [
    Formula(
        "softmax",
        {"x": "B T C"},
        """
        s = x {minus:-|+} {stop:|lax.stop_gradient}(jnp.{top:max|min|mean}(x, {axis:-1|1|0|(1, 2)}, keepdims=True))
        e = jnp.{curve:exp|exp2|cosh}(s)
        return e {divide:/|*|-} jnp.{sum:sum|mean|max|prod}(e, {axis2:-1|1|0|(1, 2)}, keepdims=True)
        """,
        forms=["Softmax"],
        passes=["FuseSoftmax"],
    ),
    Formula(
        "softmax of jax",
        {"x": "B T C"},
        "return nn.softmax({operand:x|-x|x * 3|x + x}, {axis:-1|1|0|(1, 2)})",
        forms=["Softmax"],
    ),
    Formula(
        "softmax where",
        {"x": "B C", "m": "bool B C"},
        "return nn.softmax(x, {axis:-1|0}, where={mask:m|~m})",
        forms=["Softmax"],
        passes=["FuseSoftmax"],
    ),
    Formula(
        "softmax of a selection",
        {"x": "B C", "m": "bool B C"},
        """
        low = jnp.where({mask:m|~m}, x, {low:-jnp.inf|-1e9|0})
        e = jnp.exp(low {minus:-|+} jnp.max(low, -1, keepdims=True))
        total = jnp.sum(jnp.where({inner:m|~m|m[:, ::-1]}, {term:e|2 * e}, {rest:0|1}), -1, keepdims=True)
        return {last:e / total|jnp.where(m, e / total, 0)}
        """,
        forms=["Softmax"],
        passes=["FuseSoftmax"],
    ),
    Formula(
        "softmax of what is shifted",
        {"x": "B T C"},
        "return nn.softmax(x {minus:-|+} jnp.{top:max|min|mean}(x, {axis:-1|1}, keepdims=True), {axis2:-1|1})",
        forms=["Softmax"],
        passes=["FuseSoftmax"],
    ),
    Formula(
        "softmax without a shift",
        {"x": "B C"},
        "e = jnp.exp({operand:x|x - 1|-x})\nreturn e / e.sum({axis:-1|0}, keepdims=True)",
    ),
    Formula(
        "log softmax",
        {"x": "B T C"},
        """
        s = x - jnp.max(x, {axis:-1|1|0}, keepdims=True)
        return s {minus:-|+} jnp.{log:log|log2|log1p}(jnp.{sum:sum|mean}(jnp.exp({inner:s|x|-s}), {axis2:-1|1}, keepdims=True))
        """,
        forms=["LogSoftmax"],
        passes=["FuseSoftmax"],
    ),
    Formula(
        "logsumexp",
        {"x": "B T C"},
        "return nn.logsumexp({operand:x|-x|x * 2}, {axis:-1|1|(1, 2)|0}{keep:|, keepdims=True}{b:|, b=2.0|, b=x})",
    ),
]

_ATTENTION = {"q": "B T N 4", "k": "B S N 4", "v": "B S N 4"}
#: A mask is added to the logits, so that those that overflow are not hidden.
_MASKED = {"masked keys": 1e15}
_ORDINARY: Sequence[Distribution] = ("unit", "finite", "rare", "wide")
ATTENTIONS = [
    Formula(
        "attention",
        {**_ATTENTION, "m": "bool B 1 T S", "z": "B N T S"},
        """
        logits = jnp.einsum('btnh,bsnh->bnts', q, k) {scale:* 0.5|* -0.5|* 0.0|/ 2|* 1.3|+ 0.5|}
        biased = logits {bias:|+ z|- z|* z}
        masked = jnp.where({mask:m|~m|z > 0|m[:, :, :1]|m[:1]}, {shown:biased|2 * biased|biased + 1}, {hidden:-1e30|-1e4|-1e9|-jnp.inf|0.0|jnp.nan|1e30|-3e38})
        p = nn.softmax(masked, {axis:-1|-2|1})
        return jnp.einsum('{values:bnts,bsnh->btnh|bnts,bsnh->bnth|bnts,bsnh->bth|bnst,btnh->bsnh}', p, v)
        """,
        forms=["Attention"],
        passes=["FuseAttention"],
        values=_ORDINARY,
        excuses=_MASKED,
    ),
    Formula(
        "attention whose mask is applied again",
        {**_ATTENTION, "m": "bool B 1 T S", "z": "N T S"},
        """
        logits = jnp.einsum('btnh,bsnh->bnts', q, k) * 0.5 {bias:|+ z|+ jnp.where(m, 0, -1e9)}
        p = nn.softmax(jnp.where(m, logits, {hidden:-1e9|-1e30|-jnp.inf|-1e4|-3e38}) {scale:|* 0.5|* 4.0|* -1.0}, {axis:-1|-2})
        again = {again:jnp.where(m, p, 0)|jnp.where(~m, 0, p)|p * m|jnp.where(~m, p, 0)|jnp.where(m, p, 1e-3)|jnp.where(m, p, jnp.nan)|jnp.where(m[:, :, ::-1], p, 0)|jnp.where(m[:1], p, 0)|jnp.where(z > 0, p, 0)|jnp.where(m, 2 * p, 0)|p * (m + 1)}
        return jnp.einsum('bnts,bsnh->btnh', again, v)
        """,
        forms=["Attention"],
        passes=["FuseAttention"],
        values=_ORDINARY,
        excuses=_MASKED,
    ),
    Formula(
        "attention of two masks",
        {**_ATTENTION, "m": "bool B 1 T S", "o": "bool B 1 T S"},
        """
        logits = jnp.einsum('btnh,bsnh->bnts', q, k) / 2
        first = {first:jnp.where(m, logits, -1e30)|logits + jnp.where(m, 0, -1e9)|logits * m|jnp.where(m, logits, -1e4)|jnp.where(m, logits, -jnp.inf)}
        both = {second:jnp.where(o, first, -1e30)|first + jnp.where(o, 0, -1e9)|jnp.where(o, first, -1e4)|first|jnp.where(o, first, -jnp.inf)}
        return jnp.einsum('bnts,bsnh->btnh', nn.softmax(both, -1), v)
        """,
        forms=["Attention"],
        passes=["FuseAttention"],
        values=_ORDINARY,
        excuses=_MASKED,
    ),
    Formula(
        "grouped attention",
        {"q": "B T 4 4", "k": "B S 2 4", "v": "B S 2 4"},
        """
        keys = {keys:jnp.repeat(k, 2, 2)|jnp.concatenate([k, k], 2)|jnp.concatenate([k, -k], 2)|jnp.repeat(k, 2, 2)[:, :, ::-1]}
        values = {values:jnp.repeat(v, 2, 2)|jnp.concatenate([v, v], 2)|2 * jnp.repeat(v, 2, 2)}
        p = nn.softmax(jnp.einsum('btnh,bsnh->bnts', {query:q|-q|q * 2|q + 1}, keys) * {scale:0.5|0.25|-1}, -1)
        return jnp.einsum('bnts,bsnh->btnh', p, values)
        """,
        forms=["Attention"],
        passes=["FuseAttention"],
        excuses={"overflow of products": 1e15},
    ),
    Formula(
        "attention with a soft cap",
        _ATTENTION,
        """
        logits = jnp.einsum('btnh,bsnh->bnts', q, k) * 0.5
        capped = {cap:5.0|4|-5.0|0.5} * jnp.{curve:tanh|sin|arctan}(logits / {cap2:5.0|4|-5.0|1})
        return jnp.einsum('bnts,bsnh->btnh', nn.softmax(capped {more:|* 2|+ 1|- logits}, -1), v)
        """,
        forms=["Attention"],
        passes=["FuseAttention"],
        excuses={"overflow of products": 1e15},
    ),
    Formula(
        "attention over a cache",
        {"q": "B 1 4 4", "k": "B 2 S 4", "v": "B 2 S 4", "length": "int32 B"},
        """
        groups = q.reshape(q.shape[0], 1, 2, 2, 4)
        seen = jnp.arange(k.shape[2]) {less:<|<=|>|==} length[:, None]
        logits = jnp.einsum('btkgh,bksh->bkgts', groups, k) * {scale:0.5|2|-0.5}
        p = nn.softmax(jnp.where(seen[:, None, None, None], logits, {hidden:-1e30|-jnp.inf|-1e4|0}), -1)
        return jnp.einsum('bkgts,bksh->btkgh', p, v).reshape(q.shape)
        """,
        forms=["Attention"],
        passes=["FuseAttention"],
        values=_ORDINARY,
        excuses=_MASKED,
    ),
    Formula(
        "attention over a long buffer",
        {"q": "B 1 2 4", "k": "B 1024 2 4", "v": "B 1024 2 4", "length": "int32 B"},
        """
        seen = jnp.arange(1024) {less:<|<=|>|==} {length:length[:, None]|length[:, None] + 700|length[:, None] * 200}
        logits = jnp.einsum('btnh,bsnh->bnts', q, k) * {scale:0.5|2}
        p = nn.softmax(jnp.where(seen[:, None, None], logits, {hidden:-1e30|-jnp.inf|-1e9}), -1)
        return jnp.einsum('bnts,bsnh->btnh', p, v)
        """,
        forms=["Attention", "If"],
        passes=["FuseAttention", "PartlyFilledPass", "AttentionFormsPass"],
        values=_ORDINARY,
        excuses=_MASKED,
    ),
    Formula(
        "many heads of one query",
        {"q": "B 1 16 4", "k": "B S 2 4", "v": "B S 2 4", "m": "bool B 1 1 S"},
        """
        groups = q.reshape(q.shape[0], 1, 2, 8, 4)
        logits = jnp.einsum('btkgh,bskh->bkgts', groups, k) * {scale:0.5|2}
        logits = jnp.where({mask:m[:, :, None]|m[:1, :, None]|~m[:, :, None]}, logits, {hidden:-1e30|-1e9|-jnp.inf})
        return jnp.einsum('bkgts,bskh->btkgh', nn.softmax(logits, -1), v).reshape(q.shape)
        """,
        forms=["Attention"],
        passes=["FuseAttention", "HeadsAsRows"],
        values=_ORDINARY,
        excuses=_MASKED,
    ),
    Formula(
        "attention with sinks",
        {"q": "2 T 2 3 4", "k": "2 64 2 4", "v": "2 64 2 4", "z": "6"},
        """
        logits = jnp.einsum('btkgh,bskh->bkgts', q, k) * {scale:0.5|-0.5}
        sinks = jnp.broadcast_to({sinks:z|-z|z[::-1]}.reshape(1, 2, 3, 1, 1), (*logits.shape[:4], 1))
        p = nn.softmax(jnp.concatenate([logits, sinks], -1), -1)[..., {kept::-1|1:}]
        return jnp.einsum('bkgts,bskh->{result:btkgh|bkgth|btgkh}', p, v)
        """,
        forms=["MatMul"],
        passes=["OrderProducts"],
        values=_ORDINARY,
    ),
    Formula(
        "dot product attention",
        {**_ATTENTION, "z": "B N T S", "m": "bool B N T S"},
        "return nn.dot_product_attention(q, k, v{bias:|, z|, z * 3}{mask:|, mask=m|, mask=~m}{causal:|, is_causal=True}{scale:|, scale=2.0|, scale=-1.0|, scale=0.0}{window:|, local_window_size=2|, local_window_size=(1, 0)})",
        forms=["Attention"],
        values=_ORDINARY,
        excuses=_MASKED,
    ),
    Formula(
        "dot product attention over a cache",
        {"q": "B 1 2 4", "k": "B 2 S 4", "v": "B 2 S 4"},
        """
        keys, values = {keys:jnp.swapaxes(k, 1, 2)|2 * jnp.swapaxes(k, 1, 2)|jnp.swapaxes(v, 1, 2)}, jnp.swapaxes({values:v|-v|v[:, ::-1]}, 1, 2)
        return nn.dot_product_attention({query:q|-q|q[:, :, ::-1]}, keys, values{scale:|, scale=0.3|, scale=-1.0})
        """,
        forms=["Attention"],
        passes=["AttentionLayout"],
    ),
    Formula(
        "causal attention",
        _ATTENTION,
        """
        rows, columns = jnp.arange(q.shape[1])[:, None], jnp.arange(k.shape[1])[None]
        seen = rows {compare:>=|>|<=|==} columns {shift:|+ 1|- 1}
        logits = jnp.where(seen, jnp.einsum('btnh,bsnh->bnts', q, k) * 0.5, {hidden:-1e30|-1e9|-jnp.inf|jnp.finfo(q.dtype).min})
        return jnp.einsum('bnts,bsnh->btnh', nn.softmax(logits, -1), v)
        """,
        forms=["Attention"],
        passes=["FuseAttention"],
        values=_ORDINARY,
        excuses=_MASKED,
    ),
]

ROTATIONS = [
    Formula(
        "rotary halves",
        {"x": "B T N 8", "c": "1 T 1 4", "s": "1 T 1 4"},
        """
        a, b = {parts:jnp.split(x, 2, -1)|jnp.split(x, 2, -1)[::-1]|(x[..., ::2], x[..., 1::2])|(x[..., :4], x[..., :4])}
        left = a * {c:c|s|c * 2|-c} {minus:-|+} b * {s:s|c|-s}
        right = {right:b * c + a * s|b * c - a * s|a * c + b * s|b * s + a * c|b * c + a}
        return jnp.concatenate({order:[left, right]|[right, left]|[left, left]|[left, right, left]}, {axis:-1|1})
        """,
        forms=["RotaryEmbedding"],
        passes=["FuseRotaryEmbedding"],
    ),
    Formula(
        "rotary turned",
        {"x": "B T N 8", "c": "1 T 1 4", "s": "1 T 1 4"},
        """
        a, b = jnp.split(x, 2, -1)
        cc, ss = jnp.concatenate([c, {c:c|s|-c}], -1), jnp.concatenate([s, {s:s|-s|c}], -1)
        return x * cc {plus:+|-} jnp.concatenate({turned:[-b, a]|[b, -a]|[a, -b]|[-a, b]|[b, a]}, -1) * ss
        """,
        forms=["RotaryEmbedding"],
        passes=["FuseRotaryEmbedding"],
    ),
    Formula(
        "rotary pairs",
        {"x": "B T N 8", "c": "1 T 1 4", "s": "1 T 1 4"},
        """
        a, b = x[..., {even:::2|1::2|:4}], x[..., {odd:1::2|::2|4:}]
        return jnp.stack([a * c {minus:-|+} b * s, {right:a * s + b * c|a * s - b * c|b * s + a * c}], {axis:-1|-2}).reshape(x.shape)
        """,
        forms=["RotaryEmbedding"],
        passes=["FuseRotaryEmbedding"],
    ),
    Formula(
        "rotary pairs with repeated angles",
        {"x": "B T N 8", "c": "1 T 1 4", "s": "1 T 1 4"},
        """
        cc = jnp.repeat(c, 2, -1)
        ss = {sines:jnp.repeat(s, 2, -1)|jnp.concatenate([s, s], -1)|jnp.repeat(-s, 2, -1)|jnp.repeat(c, 2, -1)|jnp.stack([s, -s], -1).reshape(cc.shape)}
        turned = jnp.stack({turned:[-x[..., 1::2], x[..., ::2]]|[x[..., 1::2], -x[..., ::2]]|[-x[..., ::2], x[..., 1::2]]|[-x[..., 4:], x[..., :4]]|[x[..., 1::2], x[..., ::2]]}, {axis:-1|-2}).reshape(x.shape)
        return {whole:x|turned|-x} * cc {plus:+|-} turned * ss
        """,
        forms=["RotaryEmbedding"],
        passes=["FuseRotaryEmbedding"],
    ),
    Formula(
        "rotary of one head",
        {"x": "B T 8", "c": "T 4", "s": "T 4"},
        """
        a, b = jnp.split(x, 2, -1)
        return jnp.concatenate([a * c + {second:-b|b|-a} * s, b * c {plus:+|-} a * {s:s|c|s[::-1]}], -1)
        """,
        forms=["RotaryEmbedding"],
        passes=["FuseRotaryEmbedding"],
    ),
    Formula(
        "rotary heads first",
        {"x": "B N T 8", "c": "T 4", "s": "T 4"},
        """
        a, b = jnp.split(x, 2, -1)
        return jnp.concatenate([a * c - b * s, b * c {plus:+|-} {right:a * s|a * c|b * s}], -1)
        """,
        forms=["RotaryEmbedding"],
        passes=["FuseRotaryEmbedding"],
    ),
]

_CELL = """
        kernel = {{kernel:{kernel}|{kernel} * 0}}
        recurrent = {recurrent}
        bias = {bias}
        def step(state, row):
            h, c = state
            parts, old = jnp.split(row @ kernel + bias, {gates}, -1), jnp.split(h @ recurrent, {gates}, -1)
{step}
            return (h, c), {{result:h|c|2 * h|h + c}}
        (last, cell), rows = lax.scan(step, ({{h:h|jnp.zeros_like(h)|h * 2}}, {{c:c|h|jnp.zeros_like(h)}}), {{rows:x|x[::-1]|x + 1}}{{reverse:|, reverse=True}})
        return {{order:rows|rows[::-1]|rows[-1]}}, {{last:last|cell}}
        """


def _cell(gates: int, step: str) -> str:
    return _CELL.format(
        kernel=_weights(3, gates * 4), recurrent=_weights(4, gates * 4), bias=_weights(gates * 4), gates=gates,
        step="\n".join(" " * 12 + line for line in step.strip().splitlines()),
    )  # fmt: skip


_OPEN = {"open gates": 1e6}
_SEQUENCE = {"x": "T B 3", "h": "B 4", "c": "B 4"}
RECURRENCES = [
    Formula(
        "LSTM",
        _SEQUENCE,
        _cell(
            4,
            """
i, g, f, o = (a {plus:+|-|*} b for a, b in zip(parts, old))
c = nn.sigmoid({forget:f|f + 1|-f|o}) * c + {input:nn.sigmoid(i)|nn.relu(i)|(1 - nn.sigmoid(f))|2 * nn.sigmoid(i)} * {g:jnp.tanh|nn.relu|jnp.sin|nn.sigmoid}(g)
h = {output:nn.sigmoid|jnp.tanh|nn.hard_sigmoid}(o) * {cell:jnp.tanh(c)|c|nn.relu(c)|jnp.tanh(g)}
""",
        ),
        forms=["LSTM"],
        excuses=_OPEN,
    ),
    Formula(
        "GRU",
        _SEQUENCE,
        _cell(
            3,
            """
z, r = (nn.sigmoid(a + b) for a, b in zip(parts[:2], old[:2]))
n = {curve:jnp.tanh|nn.relu|nn.sigmoid}(parts[2] + {reset:r * old[2]|old[2]|r + old[2]|(1 - r) * old[2]})
h = {one:(1 - z)|(2 - z)|z|(1 + z)} * n {plus:+|-} {keep:z|(1 - z)|r} * h
""",
        ),
        forms=["GRU"],
        excuses=_OPEN,
    ),
    Formula(
        "RNN",
        _SEQUENCE,
        _cell(
            1,
            """
h = {curve:jnp.tanh|nn.relu|nn.sigmoid|jnp.sin|}({operand:parts[0] + old[0]|parts[0] - old[0]|parts[0] * old[0]|parts[0] + 2 * old[0]|parts[0] + old[0] + h})
""",
        ),
        forms=["RNN"],
        excuses=_OPEN,
    ),
    Formula(
        "both directions",
        {"x": "T B 3", "h": "B 4"},
        f"""
        kernel, recurrent = {_weights(3, 4)}, {_weights(4, 4)}
        def run(x, kernel):
            return lax.scan(lambda h, row: (jnp.tanh(row @ kernel + h @ recurrent),) * 2, {{h:h|jnp.zeros_like(h)}}, x)
        last, forward = run(x, kernel)
        first, backward = run({{turned:x[::-1]|x|jnp.roll(x, 1, 0)|x[:, ::-1]}}, {{kernel:kernel * 2|kernel}})
        return jnp.concatenate([forward, backward{{again:[::-1]||[:, ::-1]}}], {{axis:-1|0|1}}), {{last:jnp.concatenate([last, first], -1)|last|first}}
        """,
        forms=["RNN"],
        passes=["FoldReversals", "JoinDirections"],
        excuses=_OPEN,
    ),
]

PRODUCTS = [
    Formula(
        "dense",
        {"x": "B 3", "y": "B 3"},
        f"return {{operand:x|x.T.T|-x}} @ {{weights:{_weights(3, 4)}|{_weights(4, 3)}.T|{_weights(3, 1)}}} {{plus:+|-|*}} {{bias:{_weights(4)}|{_weights(1)}|1|jnp.nan|0}}",
    ),
    Formula(
        "products",
        {"x": "B T 4", "y": "B 4 S", "z": "T S"},
        "return {scale:1|2|-0.5|0} * ({left:x|x[:1]|jnp.swapaxes(jnp.swapaxes(x, 1, 2), 1, 2)} @ y) {plus:+|-} {add:z|z[:1]|z[0]|0.5}",
    ),
    Formula(
        "transposed product with a vector",
        {"x": "B T 3", "y": "T"},
        "return jnp.matmul(jnp.{swap:swapaxes(x, 1, 2)|swapaxes(x, 1, 2) * 2|flip(jnp.swapaxes(x, 1, 2), 1)}, {vector:y|y * 2|y[::-1]})",
        passes=["TransposedProductsPass"],
    ),
    Formula(
        "transposed product",
        {"x": "B T", "y": "B S"},
        "return {scale:2.5|1|0} * jnp.matmul(x{side:.T|.T * 2|.T + 1}, y) {plus:+|-|*} {number:0|1|-1.0}",
    ),
    Formula(
        "scaled product",
        {"x": "B 3", "y": "3 4"},
        "return ({factor:1e20|1e-20|-1e30|3.0|0.0|jnp.inf|jnp.nan} * x) @ ({other:1e-30|1e10|1} * y) {times:*|/} {last:1e10|1e-10|1e30}",
        passes=["ScalarFusionsPass"],
    ),
    Formula(
        "almost neutral numbers",
        {"x": "B 3"},
        "return x {times:*|/|+|-} {one:(1 + 1e-9)|(1 - 1e-12)|1.0|1e-60|2} {plus:+|-} {zero:1e-60|-1e-300|0.0|1e-9}",
        dtypes=["float64"],
        passes=["NeutralConstantsPass"],
    ),
    Formula(
        "convolution with a norm",
        {"x": "B 3 6 6"},
        f"""
        weights = {_weights(8, 3, 3, 3)}
        y = lax.conv_general_dilated(x, weights, ({{strides:1, 1|2, 1|2, 2}}), '{{padding:SAME|VALID}}'{{dilation:|, (1, 1), (2, 1)}})
        scale = {{scale:{_weights(8)}.reshape(8, 1, 1)|{_weights(8)}.reshape(8, 1, 1) * 0|-{_weights(8)}.reshape(8, 1, 1)|{_weights(6)}|{_weights(6)}.reshape(6, 1)|np.float32(np.inf)|x.sum()}}
        return y {{times:*|/|-|+}} scale {{plus:+|-|*}} {{bias:{_weights(8)}.reshape(8, 1, 1)|{_weights(1)}|x.sum()|1e30}}
        """,
        forms=["Conv"],
        passes=["FoldBatchNorm"],
    ),
    Formula(
        "channels last convolution with a norm",
        {"x": "B 6 6 3"},
        f"""
        y = lax.conv_general_dilated(x, {_weights(3, 3, 3, 8)}, (1, 1), 'SAME', dimension_numbers=('NHWC', 'HWIO', '{{out:NHWC|NWHC}}'))
        y = {{reversed:y - |- y + }}{{mean:{_weights(8)}|{_weights(1)}|1e-3}}
        return nn.relu(y * {{scale:{_weights(1)}|-2|jnp.nan}})
        """,
        forms=["Conv"],
        passes=["FoldBatchNorm"],
    ),
]

IMAGES = [
    Formula(
        "resize",
        {"x": "B H W 3"},
        "return jax.image.resize(x, (x.shape[0], {height:8|4|12|2}, {width:8|4|12|6}, 3), '{method:nearest|linear|cubic|lanczos3}'{antialias:|, antialias=False})",
        forms=["Resize"],
        excuses={"weights of zero": np.inf},
    ),
    Formula(
        "repeat as resize",
        {"x": "B 3 H W"},
        "return jnp.repeat(jnp.repeat(x, {times:2|3|1}, {axis:2|1|3}), {times2:2|1|3}, {axis2:3|2|0})",
    ),
    Formula(
        "pooling",
        {"x": "B H W 3"},
        "return lax.reduce_window(x, {start:-jnp.inf|0.0|jnp.inf|jnp.nan|1.0}, lax.{monoid:max|min|add|mul}, (1, {size:2, 2|1, 2|3, 3|4, 4}, 1), (1, {strides:2, 2|1, 1|2, 1|5, 5}, 1), '{padding:VALID|SAME}'{dilation:|, window_dilation=(1, 2, 1, 1)})",
    ),
    Formula(
        "average pooling",
        {"x": "B H W 3"},
        "return lax.reduce_window(x, 0.0, lax.add, (1, {size:2, 2|3, 2}, 1), (1, 2, 2, 1), '{padding:VALID|SAME}') {divide:/|*} {count:4.0|2.0|-4.0|0.0}",
    ),
    Formula(
        "mean of space",
        {"x": "B H W 3"},
        "return jnp.{moment:mean|sum|max|var}(x, {axes:(1, 2)|(2, 1)|1|(1, 3)|(1, 2, 3)|0}{keep:|, keepdims=True})",
    ),
]

INDICES = [
    Formula(
        "mask as numbers",
        {"x": "B T S", "m": "bool B T S", "o": "bool T S"},
        """
        flag = {number:m.astype(x.dtype)|jnp.where(m, 2, 1)|jnp.where(m, -1.0, jnp.nan)|m.astype('int32')} * {other:o|1|o.astype('int32') + 1}
        return jnp.where(flag {compare:>|<|==|>=|!=|<=} {than:0|1|0.5|-1|jnp.nan}, x, {rest:-x|0})
        """,
        passes=["FoldFlags"],
    ),
    Formula(
        "cumulative",
        {"x": "B T"},
        "return lax.{monoid:cumsum|cumprod|cummax|cummin|cumlogsumexp}({operand:x|-x|x[:, ::-1]}, {axis:1|0}{reverse:|, reverse=True})",
    ),
    Formula(
        "cumulative by a scan",
        {"x": "T B"},
        "return lax.scan(lambda c, row: (c {plus:+|*|-} row, {result:c + row|c|c * row}), jnp.zeros_like(x[0]), x{reverse:|, reverse=True})",
    ),
    Formula(
        "associative scan",
        {"x": "T B"},
        "return lax.associative_scan(jnp.{monoid:add|maximum|multiply|logaddexp}, x, axis={axis:0|1}{reverse:|, reverse=True})",
    ),
    Formula(
        "cache update",
        {"x": "B S 4", "y": "B 2 4", "start": "int32"},
        "return lax.dynamic_update_slice_in_dim(x, {rows:y|y + y|y[:, ::-1]|y[:, :1]|x}, {start:start|start % 3|0|-1|start + 1|7}, {axis:1|0})",
    ),
    Formula(
        "cache update by row",
        {"x": "B S 4", "y": "B 1 4", "start": "int32 B"},
        "return jax.vmap(lambda cache, row, at: lax.dynamic_update_slice_in_dim(cache, row, {at:at|at + 1|at % 3|0}, {axis:0|0}))(x, {rows:y|y * 2}, start)",
    ),
    Formula(
        "cache set",
        {"x": "B S 4", "y": "B 4", "at": "int32 B"},
        "return x.at[{rows:jnp.arange(x.shape[0])|0|::-1|:}, {at:at|at % 3|-1|0}].{how:set|add|max|multiply}({y:y|y * 2|1.0}{mode:|, mode='clip'|, mode='drop'})",
    ),
    Formula(
        "ring cache",
        {"x": "B 5 4", "y": "B 4", "at": "int32"},
        "return x.at[:, {at:at % 5|at|(at + 1) % 5|at % 3}].set(y)",
        passes=["FuseMod"],
    ),
    Formula(
        "top_k",
        {"x": "B T"},
        "return {which:lax.top_k(x, 3)|lax.top_k(-x, 3)|lax.top_k(x, 1)|jnp.sort(x, -1)|jnp.argsort(x, -1)|jnp.argsort(-x, 0)|jnp.sort(x, descending=True)}",
    ),
    Formula(
        "argmax",
        {"x": "B T"},
        "return jnp.{which:argmax|argmin|nanargmax}({operand:x|-x|x[:, ::-1]}, {axis:-1|0|None}{keep:|, keepdims=True})",
    ),
    Formula(
        "one hot",
        {"i": "int32 B T"},
        "return nn.one_hot({index:i|-i|i % 4|i + 100}, {size:4|1|0|7}{axis:|, axis=1|, axis=0}{dtype:|, dtype='int32'|, dtype=bool}) {more:* 1|* -2.0|+ 1}",
    ),
    Formula(
        "one hot by comparison",
        {"i": "int32 B T", "x": "B T"},
        "return (i[..., None] {compare:==|!=|<=|>} jnp.arange({size:4|1})).astype({dtype:x.dtype|bool|'int32'})",
    ),
    Formula("embedding", {"i": "int32 B T", "x": "8 4"}, "return {table:x|(x * 2)|x.T}[{index:i|i % 8|-i}]"),
    Formula(
        "take",
        {"x": "B T", "i": "int32 B T"},
        "return jnp.take{along:_along_axis}(x, {index:i|-i|i % 3|i * 0}, {axis:1|0}{mode:|, mode='clip'|, mode='fill'})",
    ),
]

MIXTURES = [
    Formula(
        "mixture of selected experts",
        {"x": "T 64"},
        f"""
        chosen = lax.top_k(x @ {_weights(64, 16)}, {{k:2|1|16}})[1]
        is_chosen = (chosen[..., None] {{compare:==|!=|<}} jnp.arange(16)).any(-2)
        up = {{activation:nn.relu|jnp.exp}}(jnp.einsum("td,edf->tef", x, {_weights(16, 64, 128)}))
        made = jnp.einsum("tef,efd->ted", up, {_weights(16, 128, 64)}) {{plus:+ 0|+ x[:, None]|* 2}}
        return jnp.where(is_chosen[..., None], made, {{other:0|1|x[:, None]}}).{{how:sum|max|mean}}({{axis:1|0|2}})
        """,
        passes=["SelectExperts"],
        dtypes=("float32",),
        excuses={"overflow of products": 1e15},
    ),
    Formula(
        "sum of selected experts",
        {"x": "T 128"},
        f"""
        chosen = lax.top_k(x @ {_weights(128, 8)}, {{k:2|1|8}})[1]
        up, down = {_weights(8, 128, 512)}, {_weights(8, 512, 128)}
        result = x {{start:* 0|* 1}}
        for e in range(8):
            made = {{activation:nn.relu|jnp.exp}}(x @ up[e]) @ down[{{which:e|0|-e}}]
            result = result {{add:+|-|*}} jnp.where((chosen {{compare:==|!=}} e).any(-1)[:, None], made, {{other:0|1|x}})
        return result
        """,
        passes=["SelectExpertTerms"],
        dtypes=("float32",),
        excuses={"overflow of products": 1e15},
    ),
    Formula(
        "sum of selected experts with gates",
        {"x": "T 128"},
        f"""
        chosen = lax.top_k(x @ {_weights(128, 8)}, 2)[1]
        gate, up, down = {_weights(8, 128, 256)}, {_weights(8, 128, 256)} + 1, {_weights(8, 256, 128)}
        result = x * 0
        for e in range(8):
            made = ({{activation:nn.silu|nn.sigmoid|jnp.exp}}(x @ gate[e]{{bias:|+ e|+ up[e][0]}}) {{product:*|+|-}} (x @ up[{{which:e|0|-e}}])) @ down[e]
            result = result + jnp.where((chosen == e).any(-1)[:, None], made, 0)
        return result
        """,
        passes=["SelectExpertTerms", "BatchExpertProducts"],
        dtypes=("float32",),
        excuses={"overflow of products": 1e15},
    ),
    Formula(
        "experts of a switch under vmap",
        {"x": "T 128", "i": "int32 T"},
        f"""
        up, down = {_weights(8, 128, 512)}, {_weights(8, 512, 128)}
        experts = [lambda row, e=e: nn.relu(row @ up[e]) * {{between:1|row[0]|2}} @ down[{{which:e|7 - e|0}}] for e in range(8)]
        return jax.vmap(lambda row, n: lax.switch({{index:n|-n|n % 8|n * 0 + 7}}, experts, row))(x, i) {{behind:+ 0|+ x}}
        """,
        passes=["SelectExpertTerms"],
        dtypes=("float32",),
        excuses={"overflow of products": 1e15},
    ),
    Formula(
        "experts in a scan",
        {"x": "T 64"},
        f"""
        chosen = lax.top_k(x @ {_weights(64, 16)}, {{k:2|1|16}})[1]
        is_chosen = (chosen[..., None] {{compare:==|!=}} jnp.arange(16)).any(-2)
        def add(total, expert):
            up, down, own = expert
            made = jnp.where(own[:, None], nn.relu(x @ up) @ down, {{other:0|1|x}}) * {{scale:1|2}}
            return total {{add:+|-|*}} made, None
        weights = {_weights(16, 64, 128)}, {_weights(16, 128, 64)}
        return lax.scan(add, {{start:0 * x|x|1 + 0 * x}}, (*weights, is_chosen.T), reverse={{reverse:False|True}})[0]
        """,
        dtypes=("float32",),
        excuses={"overflow of products": 1e15},
    ),
    Formula(
        "gathered weights of experts",
        {"x": "T 64", "i": "int32 T 2"},
        f"""
        up, down = {_weights(8, 64, 512)}, {_weights(8, 512, 64)}
        chosen = {{chosen:i % 8|i|-i|0 * i}}
        hidden = nn.relu(jnp.einsum("td,tkdf->tkf", x, jnp.take(up, chosen, axis=0, mode={{mode:"clip"|"fill"|"wrap"}})))
        return jnp.einsum("tkf,tkfd,tk->{{out:td|tkd|kd}}", hidden, jnp.asarray(down)[chosen], {{gates:jnp.float32(i) % 3|x[:, :2]}})
        """,
        dtypes=("float32",),
        excuses={"overflow of products": 1e15},
    ),
    Formula(
        "places of experts",
        {"x": "T 128"},
        f"""
        gates, chosen = lax.top_k(nn.softmax(x @ {_weights(128, 8)}), {{k:2|1}})
        flat = chosen.reshape(-1)
        is_chosen = nn.one_hot(flat, 8, dtype=jnp.int32)
        place = ((jnp.cumsum(is_chosen, 0) * is_chosen).max(-1) {{first:- 1|- 0|* 0}}).reshape(chosen.shape)
        taken = nn.one_hot(chosen, 8)[..., None] * nn.one_hot(place, {{capacity:8|1|3}})[..., None, :]
        combine = (gates[..., None, None] * taken {{more:* 1|+ 0.1|- 0.1 * taken}}).sum(1)
        rows = jnp.einsum("tec,td->ecd", (combine {{above:> 0|>= 0|> 0.3}}).astype(x.dtype), x)
        up, down = {_weights(8, 128, 512)}, {_weights(8, 512, 128)}
        made = jnp.einsum("ecf,efd->ecd", nn.relu(jnp.einsum("ecd,edf->ecf", rows, up)), down)
        return jnp.einsum("tec,ecd->td", combine, made {{behind:* 2|+ 1|* made[:, :1]}})
        """,
        passes=["SelectCapacitySlots"],
        dtypes=("float32",),
        values=("unit",),
        assume=("finite",),
    ),
    Formula(
        "slots of experts",
        {"x": "T 128"},
        f"""
        gates, chosen = lax.top_k(nn.softmax(x @ {_weights(128, 8)}), {{k:2|1}})
        flat = chosen.reshape(-1)
        is_chosen = nn.one_hot(flat, 8, dtype=jnp.int32)
        place = (jnp.cumsum(is_chosen, 0) * is_chosen).max(-1) {{first:- 1|- 0|* 0|- 3}}
        copies = jnp.repeat(x, chosen.shape[1], axis=0)
        slots = jnp.zeros((8, {{capacity:8|1|3}}, 128)).at[flat, place].{{write:set|add|max}}(copies, mode="drop")
        up, down = {_weights(8, 128, 512)}, {_weights(8, 512, 128)}
        made = jnp.einsum("ecf,efd->ecd", nn.relu(jnp.einsum("ecd,edf->ecf", slots, up)), down) {{behind:* 2|+ slots|* slots[:, :1]}}
        taken = made.at[{{row:flat|7 - flat|-flat}}, place].get(mode="fill", fill_value=0)
        return (taken.reshape(*chosen.shape, -1) * gates[..., None]).sum(1)
        """,
        passes=["SelectCapacitySlots"],
        dtypes=("float32",),
        values=("unit",),
    ),
]

#: All formulas.
FORMULAS = (
    *NORMALISATIONS,
    *ACTIVATIONS,
    *SOFTMAXES,
    *ATTENTIONS,
    *ROTATIONS,
    *RECURRENCES,
    *PRODUCTS,
    *IMAGES,
    *INDICES,
    *MIXTURES,
)
