"""Small calls in PyTorch, for `cargo bench --bench calls`; the protocol is in protocol.py."""

import os

import protocol


def make(setup):
    """`setup`: kind, pass, batch, queries, keys, units and heads."""
    import torch
    from torch import nn

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(0)
    batch, queries, keys, units, heads = (setup[name] for name in ("batch", "queries", "keys", "units", "heads"))
    inputs = [torch.randn(batch, rows, units, requires_grad=True) for rows in (queries, keys, keys)]
    make_call = {
        "additive": additive,
        "dot product": dot_product,
        "multi-head": multi_head,
        "cached step": cached_step,
    }[setup["kind"]]
    attend, parameters = make_call(units, heads, inputs)
    if setup["pass"] == "forward":
        return torch.no_grad()(lambda: attend(*inputs))
    output_gradient, leaves = torch.randn(batch, queries, units), [*inputs, *parameters]
    return lambda: torch.autograd.grad((attend(*inputs) * output_gradient).sum(), leaves)


def additive(units, _heads, _inputs):
    import torch
    from torch import nn

    query, key, value = (nn.Linear(units, size, bias=False) for size in (units, units, 1))

    def attend(queries, keys, values):
        features = torch.tanh(query(queries).unsqueeze(2) + key(keys).unsqueeze(1))
        return torch.bmm(torch.softmax(value(features).squeeze(-1), -1), values)

    return attend, [layer.weight for layer in (query, key, value)]


def dot_product(_units, _heads, _inputs):
    from torch.nn.functional import scaled_dot_product_attention

    return scaled_dot_product_attention, []


def multi_head(units, heads, _inputs):
    from torch import nn

    layer = nn.MultiheadAttention(units, heads, batch_first=True)
    return lambda *inputs: layer(*inputs, need_weights=False)[0], layer.parameters()


def cached_step(units, heads, inputs):
    """A token beside the keys of a cache with space for one more, as one writes it by hand."""
    import torch
    from torch import nn
    from torch.nn.functional import scaled_dot_product_attention

    query, key, value, output = (nn.Linear(units, units) for _ in range(4))
    batch, length, _ = inputs[1].shape
    caches = [torch.randn(batch, heads, length + 1, units // heads) for _ in range(2)]

    def split(rows):
        return rows.unflatten(-1, (heads, -1)).transpose(1, 2)

    def attend(token, _keys, _values):
        for cache, layer in zip(caches, (key, value)):
            cache[:, :, length:] = split(layer(token))
        context = scaled_dot_product_attention(split(query(token)), *caches)
        return output(context.transpose(1, 2).flatten(2))

    return attend, []


if __name__ == "__main__":
    protocol.serve(make)
