"""Writes the reference files that the Rust tests compare against (see README.md in this folder).

    pip install torch numpy safetensors && python tests/reference/generate.py

Everything is computed in float64, except state_dict, which records a float32 module. A drawn element is a multiple of
1/64 in [-4, 4], so it is the same in f64, f32, f16 and bf16. A draw depends on nothing but its name: adding a case
changes no other.
"""

import json
import math
import zlib
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

HERE = Path(__file__).resolve().parent
BATCH, HEADS, QUERIES, KEYS = 2, 3, 5, 7
QUERY_SIZE, KEY_SIZE, HIDDEN, VALUE_SIZE = 11, 13, 17, 19


# ---- inputs

def draw(name, *shape, std=1.0):
    """Normally distributed elements on the grid of 1/64, seeded by `name`."""
    rng = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    x = torch.randn(*shape, generator=rng, dtype=torch.float64) * std
    return (x * 64).round().clamp(-256, 256) / 64


# ---- masks: each is the JSON object that a case carries; `attended` turns it into booleans

NONE, CAUSAL, WINDOW = {"kind": "none"}, {"kind": "causal"}, {"kind": "window", "before": 1, "after": 2}


def integers(kind, values):
    t = torch.as_tensor(values).long()
    return {"kind": kind, "shape": list(t.shape), "data": t.flatten().tolist()}


LENS_1D = integers("valid_lens", [3, 6])
LENS_1D_EMPTY = integers("valid_lens", [0, 7])
LENS_2D = integers("valid_lens", [[1, 3, 0, 7, 5], [2, 7, 4, 0, 6]])


def attended(mask, shape):
    """True where a query attends to a key, for scores of `shape` [batch, ..., queries, keys]."""
    *lead, queries, keys = shape
    kind = mask["kind"]
    query, key = torch.arange(queries)[:, None], torch.arange(keys)
    diagonal = query + keys - queries  # bottom-right aligned: the last query stands at the last key
    if kind == "none":
        keep = torch.ones(queries, keys, dtype=torch.bool)
    elif kind == "causal":
        keep = key <= diagonal
    elif kind == "window":
        keep = (key >= diagonal - mask["before"]) & (key <= diagonal + mask["after"])
    else:
        data = torch.tensor(mask["data"]).reshape(mask["shape"])
        if kind == "valid_lens":  # [batch] or [batch, queries], the same for every head
            per_query = data if data.dim() == 2 else data[:, None]
            heads = [1] * (len(lead) - 1)
            keep = key < per_query.reshape(lead[0], *heads, per_query.shape[1], 1)
        else:
            assert kind == "keep"
            keep = data.bool()
    return keep.expand(shape)


# ---- the formulas

def masked_softmax(scores, keep):
    """Softmax over the keys attended to. A masked weight is 0; a fully masked query has weights and gradients of 0."""
    any_key = keep.any(-1, keepdim=True)
    top = scores.detach().masked_fill(~keep, -math.inf).amax(-1, keepdim=True)
    top = torch.where(any_key, top, 0.0)
    # Masked scores are replaced before the exponential, so no infinity ever meets a zero in the backward pass.
    e = torch.where(keep, (torch.where(keep, scores, top) - top).exp(), 0.0)
    weights = e / torch.where(any_key, e.sum(-1, keepdim=True), 1.0)

    assert (weights[~keep] == 0).all()
    close(weights.sum(-1), any_key[..., 0].to(weights.dtype))
    close(weights, scores.masked_fill(~keep, -math.inf).softmax(-1).nan_to_num(0.0))
    return weights


def attend(scores, values, keep):
    weights = masked_softmax(scores, keep)
    return {"scores": scores, "weights": weights, "context": weights @ values}


class AdditiveAttention(nn.Module):
    """Bahdanau's score w_v . tanh(W_q q + W_k k), with the parameter names of Dive into Deep Learning."""

    def __init__(self):
        super().__init__()
        self.W_q = nn.Linear(QUERY_SIZE, HIDDEN, bias=False)
        self.W_k = nn.Linear(KEY_SIZE, HIDDEN, bias=False)
        self.w_v = nn.Linear(HIDDEN, 1, bias=False)
        self.dropout = nn.Dropout(0.1)  # has no parameters; every reference is taken in eval mode

    def score(self, queries, keys):
        pairs = self.W_q(queries).unsqueeze(-2) + self.W_k(keys).unsqueeze(-3)
        return self.w_v(pairs.tanh()).squeeze(-1)

    def score_by_concatenation(self, queries, keys):
        """The same score as one hidden layer [W_q W_k] over [q; k]."""
        q = queries.unsqueeze(-2).repeat_interleave(keys.shape[-2], -2)
        k = keys.unsqueeze(-3).repeat_interleave(queries.shape[-2], -3)
        both = torch.cat([self.W_q.weight, self.W_k.weight], dim=1)
        return (torch.cat([q, k], dim=-1) @ both.T).tanh() @ self.w_v.weight[0]

    def forward(self, x, keep):
        queries, keys, values = (x[n].to(self.w_v.weight.dtype) for n in ("queries", "keys", "values"))
        out = attend(self.score(queries, keys), values, keep)
        assert not self.training
        close(out["scores"], self.score_by_concatenation(queries, keys))
        return out


# ---- writing

def close(a, b):
    tol = 1e-12 if a.dtype == torch.float64 else 1e-5
    torch.testing.assert_close(a, b, rtol=tol, atol=tol)


def to_json(t, exact):
    """Inputs are written exactly and are f32; results have 10 significant digits. `+ 0.0` turns -0.0 into 0.0."""
    t = t.detach().double()
    assert t.isfinite().all() and (not exact or t.equal(t.float().double()))
    return {"shape": list(t.shape), "data": [(x if exact else float(f"{x:.10g}")) + 0.0 for x in t.flatten().tolist()]}


def case(name, leaves, forward, cotangents, **options):
    """`forward(leaves)`, and the gradients of loss = sum of outputs[NAME] * grad_NAME over the cotangents."""
    leaves = {n: t if isinstance(t, nn.Parameter) else t.clone().requires_grad_() for n, t in leaves.items()}
    outputs = forward(leaves)
    loss = sum((outputs[n.removeprefix("grad_")] * g).sum() for n, g in cotangents.items())
    gradients = dict(zip(leaves, torch.autograd.grad(loss, leaves.values()))) if cotangents else {}
    groups = {"inputs": leaves | cotangents, "outputs": outputs, "gradients": gradients}
    encoded = {
        group: {n: to_json(t, group == "inputs") for n, t in tensors.items()} for group, tensors in groups.items()
    }
    return {"name": name, **options, **encoded}


def write(file, cases):
    generator = f"tests/reference/generate.py, torch {torch.__version__}"
    lines = ",\n".join(json.dumps(c, separators=(",", ":"), allow_nan=False) for c in cases)
    (HERE / file).write_text(f'{{"generator":{json.dumps(generator)},"cases":[\n{lines}\n]}}\n')
    size = (HERE / file).stat().st_size
    assert size < 150_000, (file, size)
    print(f"{file:28} {size:7}", ", ".join(c["name"] for c in cases))


# ---- the subjects

def softmax_cases():
    def one(name, mask, shape=(BATCH, QUERIES, KEYS), scores=None):
        scores = draw(f"softmax/scores{shape}", *shape, std=1.5) if scores is None else scores
        cotangents = {"grad_weights": draw(f"softmax/grad{shape}", *shape)}
        keep = attended(mask, shape)

        def forward(x):
            return {"weights": masked_softmax(x["scores"], keep)}

        return case(name, {"scores": scores}, forward, cotangents, mask=mask)

    # Query by query: a large offset up, one down, a large scale, the late keys far above the early ones, and no change.
    large = draw("softmax/large", BATCH, QUERIES, KEYS)
    large[:, 0] += 1e4
    large[:, 1] -= 1e4
    large[:, 2] *= 1e4
    large[:, 3] += torch.where(torch.arange(KEYS) < 3, -1e4, 1e4)

    four = (BATCH, HEADS, QUERIES, KEYS)
    keep = draw("softmax/keep", BATCH, 1, QUERIES, KEYS) > -0.3
    keep[0, 0, 2] = False  # a fully masked query
    yield "masked_softmax.json", [
        one("no_mask", NONE),
        one("valid_lens_1d", LENS_1D),
        one("valid_lens_1d_zero_and_full", LENS_1D_EMPTY),
        one("valid_lens_2d", LENS_2D),
        one("causal_more_keys", CAUSAL),
        one("causal_more_queries", CAUSAL, (BATCH, KEYS, QUERIES)),
        one("window_more_keys", WINDOW),
        one("window_more_queries", WINDOW, (BATCH, KEYS, QUERIES)),
        one("keep_4d_broadcast_over_heads", integers("keep", keep), four),
        one("large_logits", NONE, scores=large),
        one("large_logits_valid_lens_1d", LENS_1D, scores=large),
    ]


def attention(group, key_size, forward, parameters, query_size=QUERY_SIZE):
    """Makes a function that makes a case. Tensors are drawn by `group`; queries and keys are multiplied by `factor`."""

    def one(name, mask, factor=1.0, loss=("context",), queries=QUERIES, keys=KEYS, lead=(BATCH,), **options):
        inputs = {
            "queries": draw(f"{group}/queries", *lead, queries, query_size) * factor,
            "keys": draw(f"{group}/keys", *lead, keys, key_size) * factor,
            "values": draw(f"{group}/values", *lead, keys, VALUE_SIZE),
        }
        last = {"context": VALUE_SIZE, "weights": keys}
        cotangents = {f"grad_{n}": draw(f"{group}/grad_{n}", *lead, queries, last[n]) for n in loss}
        keep = attended(mask, (*lead, queries, keys))
        return case(name, inputs | parameters, lambda x: forward(x, keep, **options), cotangents, mask=mask, **options)

    return one


def four_masks(one):
    return [
        one("no_mask", NONE),
        one("valid_lens_1d", LENS_1D),
        one("valid_lens_2d", LENS_2D),
        one("valid_lens_2d_weights_loss", LENS_2D, loss=("context", "weights")),
    ]


def additive_cases():
    module = AdditiveAttention().double().eval()
    module.load_state_dict({n: draw(f"additive/{n}", *p.shape, std=0.4) for n, p in module.named_parameters()})
    one = attention("additive", KEY_SIZE, module, dict(module.named_parameters()))
    yield "additive.json", four_masks(one)
    yield "additive_shapes.json", [
        one("saturated_20x", LENS_1D, factor=20.0),  # |2 W_q q| passes 43, where a factored tanh could overflow
        one("one_query", LENS_1D, queries=1),
        one("one_key", NONE, keys=1),
        one("heads_valid_lens_1d", LENS_1D, lead=(BATCH, HEADS)),
    ]


class NormalizedAttention(nn.Module):
    """The score g v/|v| . tanh(W_q q + b + W_k k) of TensorFlow Addons' BahdanauAttention(normalize=True)."""

    def __init__(self):
        super().__init__()
        self.W_q = nn.Linear(QUERY_SIZE, HIDDEN)
        self.W_k = nn.Linear(KEY_SIZE, HIDDEN, bias=False)
        self.w_v = nn.utils.parametrizations.weight_norm(nn.Linear(HIDDEN, 1, bias=False))

    def forward(self, x, keep):
        pairs = self.W_q(x["queries"]).unsqueeze(-2) + self.W_k(x["keys"]).unsqueeze(-3)
        weight = self.w_v.parametrizations.weight
        direction = weight.original1 / weight.original1.norm()
        close(self.w_v.weight, weight.original0 * direction)
        return attend(self.w_v(pairs.tanh()).squeeze(-1), x["values"], keep)


class ConcatAttention(nn.Module):
    """Luong's concat score v . tanh(W [q; k]), as it is written: with the pairs concatenated."""

    def __init__(self, bias):
        super().__init__()
        self.hidden = nn.Linear(QUERY_SIZE + KEY_SIZE, HIDDEN, bias=bias)
        self.value = nn.Linear(HIDDEN, 1, bias=False)

    def forward(self, x, keep):
        q = x["queries"].unsqueeze(-2).repeat_interleave(x["keys"].shape[-2], -2)
        k = x["keys"].unsqueeze(-3).repeat_interleave(x["queries"].shape[-2], -3)
        scores = self.value(self.hidden(torch.cat([q, k], dim=-1)).tanh())
        return attend(scores.squeeze(-1), x["values"], keep)


def additive_family_cases():
    """Small: two examples, three queries, four keys."""

    def one(name, module, names, lens, loss):
        module = module.double()
        module.load_state_dict({n: draw(f"{name}/{n}", *p.shape, std=0.4) for n, p in module.named_parameters()})
        parameters = {names.get(n, n): p for n, p in module.named_parameters()}
        case_of = attention("additive_family", KEY_SIZE, module, parameters)
        return case_of(name, integers("valid_lens", lens), loss=loss, queries=3, keys=4)

    names = {
        "W_q.bias": "b",
        "w_v.parametrizations.weight.original0": "g",
        "w_v.parametrizations.weight.original1": "w_v.weight",
    }
    yield "additive_family.json", [
        one("normalized", NormalizedAttention(), names, [2, 4], ("context", "weights")),
        one("concat", ConcatAttention(bias=False), {}, [3, 4], ("context", "weights")),
        one("concat_bias", ConcatAttention(bias=True), {}, [[1, 4, 0], [2, 3, 4]], ("context",)),
    ]


def dot_product(x, keep, scale=None):
    """Dot-product attention, checked against PyTorch's own, forward and backward."""
    q, k, v = x["queries"], x["keys"], x["values"]
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    out = attend(q @ k.transpose(-1, -2) * factor, v, keep)
    theirs = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=keep, scale=scale)
    close(out["context"], theirs)
    upstream = draw("dot_product/check", *theirs.shape)
    contexts = (out["context"], theirs)
    gradients = (torch.autograd.grad(y, (q, k, v), upstream, retain_graph=True) for y in contexts)
    for ours, other in zip(*gradients):
        close(ours, other)
    return out


def dot_product_cases():
    one = attention("dot_product", QUERY_SIZE, dot_product, {})
    yield "dot_product.json", four_masks(one) + [one("scale_0.7", LENS_1D, scale=0.7)]
    yield "dot_product_shapes.json", [
        one("heads_causal_more_keys", CAUSAL, lead=(BATCH, HEADS)),
        one("heads_causal_more_queries", CAUSAL, lead=(BATCH, HEADS), queries=KEYS, keys=QUERIES),
    ]


def dot_family_cases():
    query_size, key_size = 3, 4

    def two_masks(one):
        return [one("valid_lens_1d", LENS_1D), one("valid_lens_2d_weights_loss", LENS_2D, loss=("context", "weights"))]

    def bilinear(x, keep):
        scores = x["queries"] @ x["query.weight"].T @ x["keys"].transpose(-1, -2)
        pairs = (BATCH, QUERIES, KEYS)
        theirs = nn.functional.bilinear(
            x["queries"].unsqueeze(-2).expand(*pairs, query_size).contiguous(),
            x["keys"].unsqueeze(-3).expand(*pairs, key_size).contiguous(),
            x["query.weight"].T[None],
        )
        close(scores, theirs[..., 0])
        return attend(scores, x["values"], keep)

    # The `weight` of a linear layer from queries to keys: the transpose of the M in q^T M k.
    matrix = {"query.weight": draw("bilinear/query", key_size, query_size, std=0.4)}
    yield "bilinear.json", two_masks(attention("bilinear", key_size, bilinear, matrix, query_size))

    def projected(x, keep):
        names = ("queries", "query.weight"), ("keys", "key.weight")
        queries, keys = (nn.functional.linear(x[n], x[w]) for n, w in names)
        return dot_product({"queries": queries, "keys": keys, "values": x["values"]}, keep)

    sizes = ("query", query_size), ("key", key_size)
    weights = {f"{n}.weight": draw(f"projected/{n}", 5, size, std=0.6) for n, size in sizes}
    yield "projected.json", two_masks(attention("projected", key_size, projected, weights, query_size))

    def cosine(x, keep):
        cosines = nn.functional.cosine_similarity(x["queries"].unsqueeze(-2), x["keys"].unsqueeze(-3), dim=-1)
        return attend(x.get("temperature", 4.0) * cosines, x["values"], keep)

    one = attention("cosine", key_size, cosine, {"temperature": torch.tensor([2.5]).double()}, key_size)
    fixed = attention("cosine", key_size, cosine, {}, key_size)
    yield "cosine.json", two_masks(one) + [fixed("fixed_4", LENS_1D)]

    def qk_norm(x, keep):
        norm = nn.functional.rms_norm
        queries, keys = norm(x["queries"], [key_size], x["query"], 1e-6), norm(x["keys"], [key_size], x["key"], 1e-6)
        return dot_product({"queries": queries, "keys": keys, "values": x["values"]}, keep)

    gains = {n: draw(f"qk_norm/{n}", key_size, std=0.5) + 1 for n in ("query", "key")}
    yield "qk_norm.json", two_masks(attention("qk_norm", key_size, qk_norm, gains, key_size))

    def gaussian(x, keep):
        inverse_width = x.get("inverse_width", 1 / 1.5)
        scores = -((x["queries"].unsqueeze(-2) - x["keys"].unsqueeze(-3)) * inverse_width).square().sum(-1) / 2
        return attend(scores, x["values"], keep)

    one = attention("gaussian", key_size, gaussian, {"inverse_width": torch.tensor([0.75]).double()}, key_size)
    fixed = attention("gaussian", key_size, gaussian, {}, key_size)
    yield "gaussian.json", two_masks(one) + [fixed("fixed_1.5", LENS_1D)]


def kernel_smoothing_cases():
    """Weights are the kernel's values over their sum on the keys attended to; 0 where that is 0. The width is 1.5."""
    kernels = {  # as in Dive into Deep Learning, which calls the triangular one "epanechikov"
        "gaussian": lambda x: torch.exp(-(x**2) / 2),
        "box": lambda x: (x < 1.0).to(x.dtype) + 0 * x,
        "constant": lambda x: 1.0 + 0 * x,
        "triangular": lambda x: torch.relu(1 - x),
        "epanechnikov": lambda x: torch.relu(1 - x**2),
    }

    def smooth(kernel):
        def forward(x, keep):
            distances = torch.linalg.vector_norm(x["queries"].unsqueeze(-2) - x["keys"].unsqueeze(-3), dim=-1) / 1.5
            assert (distances > 0).all()  # where the norm has no gradient
            scores = kernels[kernel](distances)
            kept = torch.where(keep, scores, 0.0)
            total = kept.sum(-1, keepdim=True)
            weights = kept / torch.where(total > 0, total, 1.0)
            return {"scores": scores, "weights": weights, "context": weights @ x["values"]}

        return forward

    def cases(size, factor):
        def one(kernel):
            return attention(f"kernel/{size}", size, smooth(kernel), {}, size)

        return [one(kernel)(kernel, LENS_2D, factor=factor, loss=("context", "weights")) for kernel in kernels]

    # Distances by differences, and by a product. The factors bring some keys within reach, not all.
    yield "kernel_smoothing.json", cases(2, 0.5)
    yield "kernel_smoothing_wide.json", cases(9, 0.25)


def state_dicts():
    """A float32 module as a user would have trained and saved it, alone and inside a bigger model."""
    torch.manual_seed(0)
    module = AdditiveAttention().eval()
    state = module.state_dict()
    torch.save(state, HERE / "additive_state_dict.pt")
    save_file(state, HERE / "additive_state_dict.safetensors")
    model = nn.ModuleDict({"encoder": nn.Linear(KEY_SIZE, KEY_SIZE, bias=False), "attention": module})
    torch.save(model.state_dict(), HERE / "additive_nested.pt")

    one = attention("state_dict", KEY_SIZE, module, dict(module.named_parameters()))
    yield "additive_state_dict.json", [one("float32_eval", LENS_1D, loss=())]


def recurrent_cases():
    steps, input_size, hidden_size = 6, 5, 7

    def one(kind, name, bidirectional, lengths, layers=1):
        layer = {"gru": nn.GRU, "lstm": nn.LSTM}[kind]
        layer = layer(input_size, hidden_size, layers, batch_first=True, bidirectional=bidirectional).double()
        layer.load_state_dict({n: draw(f"gru/{n}", *p.shape, std=0.5) for n, p in layer.named_parameters()})
        if layers > 1:
            state = {n: t.float().contiguous() for n, t in layer.state_dict().items()}
            save_file(state, HERE / f"{kind}.safetensors")
            torch.save({f"encoder.rnn.{n}": t for n, t in state.items()}, HERE / f"{kind}_nested.pt")

        def forward(x):
            initial = tuple(x[n] for n in ("h_0", "c_0") if n in x)
            initial = initial[0] if len(initial) == 1 else initial or None
            if lengths is None:
                output, state = layer(x["input"], initial)
            else:  # padding is not read, and the outputs there are 0
                packed = pack_padded_sequence(x["input"], lengths, batch_first=True, enforce_sorted=False)
                packed, state = layer(packed, initial)
                output, _ = pad_packed_sequence(packed, batch_first=True, total_length=steps)
            if kind == "gru":
                return {"output": output, "hidden": state}
            return {"output": output, "hidden": state[0], "cell": state[1]}

        leaves = {"input": draw("gru/input", BATCH, steps, input_size)} | dict(layer.named_parameters())
        directions = 1 + bidirectional
        grad = {"grad_output": draw(f"gru/grad_output{bidirectional}", BATCH, steps, hidden_size * directions)}
        if kind == "lstm":
            grad["grad_cell"] = draw(f"lstm/grad_cell{bidirectional}", layers * directions, BATCH, hidden_size)
        if layers > 1:
            states = ["h_0", "c_0"][: 1 + (kind == "lstm")]
            leaves |= {n: draw(f"gru/{n}", layers * directions, BATCH, hidden_size) for n in states}
            grad["grad_hidden"] = draw("gru/grad_hidden", layers * directions, BATCH, hidden_size)
        return case(name, leaves, forward, grad, bidirectional=bidirectional, lengths=lengths, layers=layers)

    for kind in ("gru", "lstm"):
        yield f"{kind}.json", [
            one(kind, "unidirectional", False, None),
            one(kind, "unidirectional_lengths", False, [4, 6]),
            one(kind, "bidirectional", True, None),
            one(kind, "bidirectional_lengths", True, [4, 6]),
            one(kind, "layers", True, [4, 6], 2),
        ]


# ---- heads and positions

MULTI_HIDDEN, MULTI_HEADS = 12, 3


class MultiHeadAttention(nn.Module):
    """D2L's: four linear layers, and scaled dot-product attention of each head's part."""

    def __init__(self, query_size, key_size, value_size, bias=False):
        super().__init__()
        self.W_q = nn.Linear(query_size, MULTI_HIDDEN, bias=bias)
        self.W_k = nn.Linear(key_size, MULTI_HIDDEN, bias=bias)
        self.W_v = nn.Linear(value_size, MULTI_HIDDEN, bias=bias)
        self.W_o = nn.Linear(MULTI_HIDDEN, MULTI_HIDDEN, bias=bias)

    def forward(self, x, keep):
        q, k, v = (w(x[n]).unflatten(-1, (MULTI_HEADS, -1)).transpose(1, 2)
                   for w, n in ((self.W_q, "queries"), (self.W_k, "keys"), (self.W_v, "values")))
        out = attend(q @ k.mT / q.shape[-1] ** 0.5, v, keep)
        return {"weights": out["weights"], "context": self.W_o(out["context"].transpose(1, 2).flatten(2))}


class TorchMultiHead(nn.Module):
    """`torch.nn.MultiheadAttention`, called as the others are."""

    def __init__(self, key_size=MULTI_HIDDEN, value_size=MULTI_HIDDEN, add_bias_kv=False):
        super().__init__()
        self.inner = nn.MultiheadAttention(MULTI_HIDDEN, MULTI_HEADS, kdim=key_size, vdim=value_size,
                                           add_bias_kv=add_bias_kv, batch_first=True)

    def forward(self, x, keep):
        masked = ~keep.flatten(0, 1)
        inputs = x["queries"], x["keys"], x["values"]
        context, weights = self.inner(*inputs, attn_mask=masked, average_attn_weights=False)
        return {"weights": weights, "context": context}


def multi_head_cases():
    def one(name, module, sizes, mask, save, queries=5, keys=7):
        module = module.double().eval()
        parameters = {n: p.shape for n, p in module.named_parameters()}
        module.load_state_dict({n: draw(f"multi_head/{n}{list(s)}", *s, std=0.3) for n, s in parameters.items()})
        save({n: t.float().contiguous() for n, t in module.state_dict().items()})
        lengths = {"queries": queries, "keys": keys, "values": keys}
        inputs = {n: draw(f"multi_head/{n}{size}", BATCH, lengths[n], size) for n, size in zip(lengths, sizes)}
        keep = attended(mask, (BATCH, MULTI_HEADS, queries, keys))
        grad = {"grad_context": draw("multi_head/grad", BATCH, queries, MULTI_HIDDEN)}
        leaves = inputs | dict(module.named_parameters())
        return case(name, leaves, lambda x: module(x, keep), grad, mask=mask)

    def inner(state):
        return {n.removeprefix("inner."): t for n, t in state.items()}

    def nested(state):
        other = {"layers.0.weight": torch.ones(2, 2)}
        return other | {n.replace("inner.", "layers.2.self_attn."): t for n, t in state.items()}

    some = integers("valid_lens", [[1, 3, 7, 7, 5], [2, 7, 4, 1, 6]])
    yield "multi_head.json", [
        one("d2l", MultiHeadAttention(5, 7, 4), (5, 7, 4), LENS_1D,
            lambda s: torch.save(s, HERE / "multi_head_d2l.pt")),
        one("d2l_bias", MultiHeadAttention(12, 12, 12, bias=True), (12, 12, 12), LENS_2D,
            lambda s: save_file(s, HERE / "multi_head_d2l_bias.safetensors")),
        one("torch", TorchMultiHead(), (12, 12, 12), CAUSAL,
            lambda s: (torch.save(nested(s), HERE / "multi_head_nested.pt"),
                       save_file(inner(s), HERE / "multi_head.safetensors"))),
        one("torch_sizes", TorchMultiHead(7, 4), (12, 7, 4), some,
            lambda s: torch.save(inner(s), HERE / "multi_head_sizes.pt")),
        one("torch_bias_kv", TorchMultiHead(add_bias_kv=True), (12, 12, 12), some,
            lambda s: save_file(inner(s), HERE / "multi_head_bias_kv.safetensors")),
    ]


def t5_bucket(ahead, bidirectional, buckets, max_distance):
    """The bucket of key minus query, from the description in the paper's code, in float32 as there."""
    buckets, start = (buckets // 2, (ahead > 0) * (buckets // 2)) if bidirectional else (buckets, 0 * ahead)
    distance = ahead.abs() if bidirectional else (-ahead).clamp(min=0)
    exact = buckets // 2
    logarithm = (distance.clamp(min=1).float() / exact).log() / math.log(max_distance / exact)
    far = exact + (logarithm * (buckets - exact)).long()
    return start + torch.where(distance < exact, distance, far.clamp(max=buckets - 1))


def position_cases():
    heads, buckets, distance = 3, 8, 6
    offset = torch.arange(KEYS)[None, :] - (torch.arange(QUERIES)[:, None] + KEYS - QUERIES)

    def one(name, mask, bias, parameters={}):
        lengths = {"queries": QUERIES, "keys": KEYS, "values": KEYS}
        inputs = {n: draw(f"positions/{n}", BATCH, heads, length, 6) for n, length in lengths.items()}
        keep = attended(mask, (BATCH, heads, QUERIES, KEYS))

        def forward(x):
            out = attend(x["queries"] @ x["keys"].mT / 6 ** 0.5 + bias(x), x["values"], keep)
            theirs = nn.functional.scaled_dot_product_attention(
                x["queries"], x["keys"], x["values"], attn_mask=torch.where(keep, bias(x), -math.inf))
            close(out["context"], theirs)
            return {n: out[n] for n in ("weights", "context")}

        grad = {"grad_context": draw("positions/grad", BATCH, heads, QUERIES, 6)}
        return case(name, inputs | parameters, forward, grad, mask=mask)

    # Slopes of 3 heads: those of 2, then every other one of 4.
    slopes = torch.tensor([2.0 ** -4, 2.0 ** -8, 2.0 ** -2], dtype=torch.float64)[:, None, None]
    embedding = {"embedding": draw("positions/embedding", buckets, heads)}

    def t5(bidirectional):
        chosen = t5_bucket(offset, bidirectional, buckets, distance)
        return lambda x: x["embedding"][chosen].permute(2, 0, 1)

    def table(bidirectional, buckets, distance):
        found = t5_bucket(torch.arange(-150, 151), bidirectional, buckets, distance)
        shape = {"options": torch.tensor([float(bidirectional), buckets, distance])}
        return case(f"buckets_{bidirectional}_{buckets}_{distance}", shape, lambda _: {"buckets": found}, {}, mask=NONE)

    tables = (True, 32, 128), (False, 32, 128), (True, 8, 6), (False, 10, 50), (True, 64, 100)
    yield "positions.json", [
        one("alibi", CAUSAL, lambda x: slopes * offset),
        one("alibi_bidirectional", LENS_2D, lambda x: -slopes * offset.abs()),
        one("t5", LENS_1D, t5(True), embedding),
        one("t5_causal", CAUSAL, t5(False), embedding),
        *(table(*options) for options in tables),
    ]


# ---- alignment

def alignment_cases():
    """Attention of a decoder's steps that know which keys the steps before attended to: written out step by step."""
    steps, keys, query_size, key_size, hidden, value_size, filters, kernel = 4, 6, 3, 5, 7, 4, 2, 3
    lens = integers("valid_lens", [4, 6])
    keep = attended(lens, (BATCH, 1, keys))[:, 0]

    inputs = {
        "queries": draw("alignment/queries", BATCH, steps, query_size),
        "keys": draw("alignment/keys", BATCH, keys, key_size),
        "values": draw("alignment/values", BATCH, keys, value_size),
    }
    linear = {
        "query.weight": draw("alignment/query", hidden, query_size, std=0.5),
        "key.weight": draw("alignment/key", hidden, key_size, std=0.5),
        "key.bias": draw("alignment/key_bias", hidden, std=0.5),
        "value.weight": draw("alignment/value", 1, hidden, std=1.5),
    }
    cotangents = {
        "grad_context": draw("alignment/grad_context", BATCH, steps, value_size),
        "grad_weights": draw("alignment/grad_weights", BATCH, steps, keys),
    }

    def hidden_of(x, step):
        return (x["queries"][:, step] @ x["query.weight"].T)[:, None] + x["keys"] @ x["key.weight"].T + x["key.bias"]

    def outputs(x, weights, **more):
        weights = torch.stack(weights, 1)
        return {"weights": weights, "context": weights @ x["values"]} | more

    def location(channels):
        def forward(x):
            previous = cumulative = torch.zeros(BATCH, keys, dtype=torch.float64)
            weights = []
            for step in range(steps):
                known = {"previous": [previous], "cumulative": [cumulative], "both": [previous, cumulative]}
                features = torch.stack(known[channels], 1)
                f = nn.functional.conv1d(features, x["filters.weight"], padding=kernel // 2).transpose(1, 2)
                pairs = hidden_of(x, step) + f @ x["location.weight"].T
                previous = masked_softmax(pairs.tanh() @ x["value.weight"][0], keep)
                cumulative = cumulative + previous
                weights.append(previous)
            return outputs(x, weights)

        count = 2 if channels == "both" else 1
        parameters = {
            "filters.weight": draw(f"alignment/filters{count}", filters, count, kernel),
            "location.weight": draw("alignment/location", hidden, filters),
        }
        return case(f"location_{channels}", inputs | linear | parameters, forward, cotangents, mask=lens)

    def coverage(x):
        covered = torch.zeros(BATCH, keys, dtype=torch.float64)
        penalty = 0.0
        weights = []
        for step in range(steps):
            pairs = hidden_of(x, step) + covered[..., None] @ x["coverage.weight"].T
            now = masked_softmax(pairs.tanh() @ x["value.weight"][0], keep)
            penalty = penalty + torch.minimum(now, covered).sum(-1)
            covered = covered + now
            weights.append(now)
        return outputs(x, weights, penalty=penalty)

    def monotonic(x):
        """By the recursion over keys: q_j, the probability to reach key j, is (1 - p_{j-1}) q_{j-1} + a_j."""
        linear = {name: x[f"score.{name}"] for name in ("query.weight", "key.weight", "value.weight")}
        x = x | linear | {"key.bias": x["score.query.bias"]}
        v = nn.functional.normalize(x["value.weight"][0], dim=0) * x["score.gain"]
        before = nn.functional.one_hot(torch.zeros(BATCH, dtype=torch.long), keys).double()
        weights = []
        for step in range(steps):
            p = torch.where(keep, (hidden_of(x, step).tanh() @ v + x["offset"]).sigmoid(), 0.0)
            reach, now = torch.zeros(BATCH, dtype=torch.float64), []
            for j in range(keys):
                reach = (reach * (1 - p[:, j - 1]) if j else reach) + before[:, j]
                now.append(p[:, j] * reach)
            before = torch.stack(now, 1)
            weights.append(before)
        return outputs(x, weights)

    covering = linear | {"coverage.weight": draw("alignment/coverage", hidden, 1)}
    # A score by itself, which has the bias beside its projection of queries.
    score = {f"score.{name.replace('key.bias', 'query.bias')}": tensor for name, tensor in linear.items()}
    walking = score | {"score.gain": draw("alignment/gain", 1) + 2, "offset": draw("alignment/offset", 1) - 1}
    penalised = cotangents | {"grad_penalty": draw("alignment/grad_penalty", BATCH)}
    yield "alignment.json", [
        *(location(channels) for channels in ("previous", "cumulative", "both")),
        case("coverage", inputs | covering, coverage, penalised, mask=lens),
        case("monotonic", inputs | walking, monotonic, cotangents, mask=lens),
    ]


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    subjects = (
        softmax_cases,
        additive_cases,
        additive_family_cases,
        dot_product_cases,
        dot_family_cases,
        kernel_smoothing_cases,
        state_dicts,
        recurrent_cases,
        multi_head_cases,
        position_cases,
        alignment_cases,
    )
    for subject in subjects:
        for file, cases in subject():
            write(file, cases)
