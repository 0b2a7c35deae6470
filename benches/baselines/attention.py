"""Attention in PyTorch and JAX, for `cargo bench --bench attention`; the protocol is in protocol.py.

`python attention.py --check` compares all candidates, outputs and gradients, at small sizes.
"""

import math
import os
import sys

import numpy as np
import protocol


def make(setup):
    """`setup`: candidate, pass (`forward` or `backward`, which is both) and work, with its kind and sizes."""
    work, candidate = setup["work"], setup["candidate"]
    library = jax_call if candidate == "JAX jit" else torch_call
    call = library(candidate, work["kind"], *draw(work))
    return call(with_gradients=setup["pass"] == "backward")


def draw(work):
    """The inputs and parameters of a work, and the gradient of its output."""
    random = np.random.default_rng(0)

    def normal(*shape):
        return random.standard_normal(shape, dtype=np.float32)

    def weight(inputs, outputs):  # As nn.Linear draws it.
        bound = 1 / math.sqrt(inputs)
        return random.uniform(-bound, bound, (inputs, outputs)).astype(np.float32)

    batch, queries, keys, size = (work[name] for name in ("batch", "queries", "keys", "size"))
    match work["kind"]:
        case "additive":
            hidden = work["hidden"]
            inputs = [normal(batch, queries, size), normal(batch, keys, size), normal(batch, keys, size)]
            inputs += [weight(size, hidden), weight(size, hidden), weight(hidden, 1)]
        case "decoding":  # The keys are projected.
            hidden = work["hidden"]
            inputs = [normal(batch, queries, size), normal(batch, keys, hidden), normal(batch, keys, size)]
            inputs += [weight(size, hidden), weight(hidden, 1)]
        case "dot product":
            heads = work["heads"]
            inputs = [normal(batch, heads, rows, size) for rows in (queries, keys, keys)]
    return inputs, normal(*inputs[0].shape[:-1], size)


def torch_call(candidate, kind, inputs, output_gradient):
    import torch
    from torch.nn import functional

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    # Each work and pass is compiled for its own sizes.
    torch._dynamo.config.recompile_limit = 64

    def additive(queries, keys, values, w_q, w_k, w_v):
        return decoding(queries, keys @ w_k, values, w_q, w_v)

    def decoding(queries, projected_keys, values, w_q, w_v):
        features = torch.tanh((queries @ w_q).unsqueeze(2) + projected_keys.unsqueeze(1))
        scores = (features @ w_v).squeeze(-1)
        return torch.bmm(torch.softmax(scores, -1), values)

    def dot_product(queries, keys, values):
        scores = queries @ keys.mT / math.sqrt(queries.shape[-1])
        return torch.softmax(scores, -1) @ values

    attend = {"additive": additive, "decoding": decoding, "dot product": dot_product}[kind]
    if candidate == "PyTorch SDPA":
        attend = functional.scaled_dot_product_attention
    inputs, output_gradient = [torch.from_numpy(array) for array in inputs], torch.from_numpy(output_gradient)

    def loss(inputs, output_gradient):
        return (attend(*inputs) * output_gradient).sum()

    def call(with_gradients):
        def wrap(function):
            if candidate != "torch.compile":
                return function
            # fullgraph: an error instead of a silent return to eager.
            return torch.compile(function, fullgraph=True, dynamic=False)

        if not with_gradients:
            return torch.no_grad()(lambda forward=wrap(attend): forward(*inputs))
        leaves = [tensor.requires_grad_() for tensor in inputs]
        return lambda loss=wrap(loss): torch.autograd.grad(loss(leaves, output_gradient), leaves)

    return call


def jax_call(candidate, kind, inputs, output_gradient):
    import jax
    from jax import numpy as jnp

    def additive(queries, keys, values, w_q, w_k, w_v):
        return decoding(queries, keys @ w_k, values, w_q, w_v)

    def decoding(queries, projected_keys, values, w_q, w_v):
        features = jnp.tanh((queries @ w_q)[:, :, None] + projected_keys[:, None])
        scores = (features @ w_v)[..., 0]
        return jax.nn.softmax(scores, -1) @ values

    def dot_product(queries, keys, values):
        scores = queries @ keys.mT / math.sqrt(queries.shape[-1])
        return jax.nn.softmax(scores, -1) @ values

    attend = {"additive": additive, "decoding": decoding, "dot product": dot_product}[kind]
    inputs, output_gradient = [jnp.array(array) for array in inputs], jnp.array(output_gradient)

    def loss(inputs, output_gradient):
        return (attend(*inputs) * output_gradient).sum()

    def call(with_gradients):
        if not with_gradients:
            forward = jax.jit(attend)
            return lambda: forward(*inputs).block_until_ready()
        backward = jax.jit(jax.value_and_grad(loss))
        return lambda: jax.block_until_ready(backward(inputs, output_gradient))[1]

    return call


def check():
    protocol.limit_threads(os.cpu_count())
    sizes = {"batch": 3, "heads": 2, "queries": 5, "keys": 7, "size": 11, "hidden": 13}
    for kind in ("additive", "decoding", "dot product"):
        for which in ("forward", "backward"):
            work = {"kind": kind} | sizes
            names = ["PyTorch eager", "torch.compile", "JAX jit"] + ["PyTorch SDPA"] * (kind == "dot product")
            results = {name: make({"candidate": name, "pass": which, "work": work})() for name in names}
            expected = results.pop("PyTorch eager")
            for name, result in results.items():
                for ours, theirs in zip(result, expected, strict=True):
                    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), atol=1e-5, err_msg=name)
            print(f"{kind}, {which}: {', '.join(results)} agree with PyTorch eager")


if __name__ == "__main__":
    check() if "--check" in sys.argv else protocol.serve(make)
