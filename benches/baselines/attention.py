"""Attention in PyTorch and JAX, for `cargo bench --bench attention`; the protocol is in protocol.py.

`python attention.py --check` compares all candidates, outputs and gradients, at small sizes.
"""

import math
import os
import sys

import numpy as np
import protocol


def make(setup):
    """`setup`: candidate, pass (`forward` or `backward`, which is both), device (`cpu` or `cuda`), dtype (`float32` or
    `float16`) and work, with its kind and sizes."""
    work, candidate, device, dtype = (setup[name] for name in ("work", "candidate", "device", "dtype"))
    if candidate == "JAX jit":
        if (device, dtype) != ("cpu", "float32"):
            raise ValueError("JAX is measured on the CPU in float32 alone")
        call = jax_call(work["kind"], *draw(work))
    else:
        call = torch_call(candidate, work["kind"], device, dtype, *draw(work))
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


def torch_call(candidate, kind, device, dtype, inputs, output_gradient):
    import torch
    from torch.nn import functional

    finished = protocol.finished_on(device)
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
    *inputs, output_gradient = [
        torch.from_numpy(array).to(device, getattr(torch, dtype)) for array in [*inputs, output_gradient]
    ]

    def loss(inputs, output_gradient):
        return (attend(*inputs) * output_gradient).sum()

    def call(with_gradients):
        def wrap(function):
            if candidate != "torch.compile":
                return function
            # fullgraph: an error instead of a silent return to eager.
            return torch.compile(function, fullgraph=True, dynamic=False)

        if not with_gradients:
            return finished(torch.no_grad()(lambda forward=wrap(attend): forward(*inputs)))
        leaves = [tensor.requires_grad_() for tensor in inputs]
        return finished(lambda loss=wrap(loss): torch.autograd.grad(loss(leaves, output_gradient), leaves))

    return call


def jax_call(kind, inputs, output_gradient):
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
    import torch

    sizes = {"batch": 3, "heads": 2, "queries": 5, "keys": 7, "size": 11, "hidden": 13}
    devices = ["cpu"] + ["cuda"] * torch.cuda.is_available()
    for kind in ("additive", "decoding", "dot product"):
        for which in ("forward", "backward"):
            setup = {"pass": which, "work": {"kind": kind} | sizes}
            reference = {"candidate": "PyTorch eager", "device": "cpu", "dtype": "float32"}
            expected = make(setup | reference)()
            others = [("JAX jit", "cpu", "float32")] * (protocol.version("jax") is not None)
            for device in devices:
                for dtype in ["float32"] + ["float16"] * (kind == "dot product"):
                    names = ["PyTorch eager", "torch.compile"] + ["PyTorch SDPA"] * (kind == "dot product")
                    others += [(name, device, dtype) for name in names]
            for name, device, dtype in others:
                result = make(setup | {"candidate": name, "device": device, "dtype": dtype})()
                tolerance = 1e-5 if dtype == "float32" else 2e-2
                for theirs, wanted in zip(result, expected, strict=True):
                    theirs = theirs.float().cpu() if name != "JAX jit" else theirs
                    message = f"{name}, {device}, {dtype}"
                    np.testing.assert_allclose(np.asarray(theirs), wanted, atol=tolerance, err_msg=message)
            agree = ", ".join(" ".join(other) for other in others)
            print(f"{kind}, {which}: agree with {' '.join(reference.values())}: {agree}")


if __name__ == "__main__":
    check() if "--check" in sys.argv else protocol.serve(make)
