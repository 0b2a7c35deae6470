"""Small calls in PyTorch, for `cargo bench --bench calls`; the protocol is in protocol.py."""

import os

import protocol


def make(setup):
    """`setup`: candidate, kind, pass, batch, queries, keys, units and heads."""
    import torch
    from torch import nn

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(0)
    batch, queries, keys, units, heads = (setup[name] for name in ("batch", "queries", "keys", "units", "heads"))
    inputs = [torch.randn(batch, rows, units, requires_grad=True) for rows in (queries, keys, keys)]
    candidate, is_forward = setup["candidate"], setup["pass"] == "forward"
    if setup["kind"] == "location step":
        own = {"ESPnet": espnet_step, "Coqui": coqui_step}.get(candidate.split(",")[0])
        if own and queries > 1:
            raise ValueError("measured at a single step")
        compiles = "compile" in candidate
        with torch.no_grad():
            if own:
                attend, parameters = own(units, inputs, is_forward)
            else:
                attend, parameters = location_steps(units, inputs, is_forward, compiles and queries > 1)
        if compiles and queries == 1:
            attend = torch.compile(attend, dynamic=False)
    else:
        make_call = {
            "additive": additive,
            "dot product": dot_product,
            "multi-head": multi_head,
            "cached step": cached_step,
        }[setup["kind"]]
        attend, parameters = make_call(units, heads, inputs)
    if is_forward:
        return torch.no_grad()(lambda: attend(*inputs))
    output_gradient, leaves = torch.randn(batch, queries, units), [*inputs, *parameters]
    # The packages' steps take the keys for values.
    unused = setup["kind"] not in ("additive", "dot product", "multi-head", "cached step")
    return lambda: torch.autograd.grad((attend(*inputs) * output_gradient).sum(), leaves, allow_unused=unused)


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


# Filters of location-sensitive attention, and the keys under one.
FILTERS, WIDTH = 32, 31


def location_steps(units, inputs, is_forward, compiles_step):
    """The formula of Tacotron 2, composed: filters over the weights of the step before and their sum. Keys are
    projected before a forward pass, and within one that trains."""
    import torch
    from torch import nn

    query, key, value = (nn.Linear(units, size, bias=False) for size in (units, units, 1))
    filters = nn.Conv1d(2, FILTERS, WIDTH, padding=WIDTH // 2, bias=False)
    location = nn.Linear(FILTERS, units, bias=False)
    projected = key(inputs[1])
    first = torch.full((len(projected), projected.shape[1]), 1 / projected.shape[1])

    def step(query, keys, values, last, total):
        before = torch.stack([last, total], 1)
        features = torch.tanh(query.unsqueeze(1) + keys + location(filters(before).mT))
        weights = torch.softmax(value(features).squeeze(-1), -1)
        return torch.bmm(weights.unsqueeze(1), values), weights, total + weights

    if compiles_step:
        step = torch.compile(step, dynamic=False)

    def attend(queries, keys, values):
        keys = projected if is_forward else key(keys)
        last, total, contexts = first, first, []
        for row in query(queries).unbind(1):
            context, last, total = step(row, keys, values, last, total)
            contexts.append(context)
        return torch.cat(contexts, 1)

    layers = [query, value, filters, location] + [key] * (not is_forward)
    return attend, [layer.weight for layer in layers]


def espnet_step(units, inputs, is_forward):
    """ESPnet's own, whose filters run over the weights of the step before alone."""
    import torch
    from espnet.nets.pytorch_backend.rnn.attentions import AttLoc

    module = AttLoc(units, units, units, FILTERS, WIDTH // 2)
    batch, length, _ = inputs[1].shape
    before = torch.full((batch, length), 1 / length)

    def attend(queries, keys, _values):
        if not is_forward:
            module.reset()  # which forgets the projected keys
        return module(keys, [length] * batch, queries[:, 0], before)[0].unsqueeze(1)

    return attend, module.parameters()


def coqui_step(units, inputs, is_forward):
    """Coqui's own."""
    import torch
    from TTS.tts.layers.tacotron.attentions import OriginalAttention

    module = OriginalAttention(units, units, units, True, FILTERS, WIDTH, False, "softmax", False, False, False)
    projected = module.preprocess_inputs(inputs[1])
    mask = torch.ones(projected.shape[:2], dtype=torch.bool)

    def attend(queries, keys, _values):
        module.init_states(keys)
        of_keys = projected if is_forward else module.preprocess_inputs(keys)
        return module(queries[:, 0], keys, of_keys, mask).unsqueeze(1)

    return attend, module.parameters()


if __name__ == "__main__":
    protocol.serve(make)
