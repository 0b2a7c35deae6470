"""Scores of the user's own in PyTorch, for `cargo bench --bench own_score`; the protocol is in protocol.py."""

import math
import os

import protocol


def make(setup):
    """`setup`: candidate, score, pass, shape (batch, heads, queries, keys), size, slope and cap."""
    import torch
    from torch.nn import functional

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(0)
    torch._dynamo.config.recompile_limit = 64
    batch, heads, queries, keys = setup["shape"]
    size, cap = setup["size"], setup["cap"]
    inputs = [torch.randn(batch, heads, rows, size, requires_grad=True) for rows in (queries, keys, keys)]
    weight = torch.randn(size, requires_grad=True)
    candidate, is_forward = setup["candidate"], setup["pass"] == "forward"

    def distance(query, key):
        return -((query.unsqueeze(3) - key.unsqueeze(2)).abs() * weight).sum(-1)

    def leaky_relu(query, key):
        return functional.leaky_relu(query.unsqueeze(3) + key.unsqueeze(2), setup["slope"]) @ weight

    def soft_cap(query, key):
        return cap * torch.tanh(query @ key.mT / math.sqrt(size) / cap)

    score = {"distance": distance, "leaky relu": leaky_relu, "soft-cap": soft_cap}[setup["score"]]

    def attend(query, key, value):
        return torch.softmax(score(query, key), -1) @ value

    leaves = inputs + [weight] * (setup["score"] != "soft-cap")
    if candidate.startswith("flex_attention"):
        from torch.nn.attention.flex_attention import flex_attention

        if not is_forward:
            raise ValueError("flex_attention has no backward pass on a CPU")
        attend = torch.compile(
            lambda query, key, value: flex_attention(
                query, key, value, score_mod=lambda score, *_: cap * torch.tanh(score / cap)
            ),
            dynamic=False,
        )
    elif candidate == "torch.compile":
        attend = torch.compile(attend, dynamic=False)
    if is_forward:
        inputs = [rows.detach() for rows in inputs]
        return torch.no_grad()(lambda: attend(*inputs))
    output_gradient = torch.randn(batch, heads, queries, size)
    return lambda: torch.autograd.grad((attend(*inputs) * output_gradient).sum(), leaves)


if __name__ == "__main__":
    protocol.serve(make)
