"""Writes what PyTorch's Transformer layers compute, for the Rust tests to compare against (see README.md).

    pip install torch==2.15.0 numpy safetensors && python tests/reference/generate_transformer.py

Also the state dicts of these modules, in `import`: a parameter of a name is the same in all cases of a group, `layer`
or `stack`, so that one state dict has the parameters of them all.

Everything is computed in float64 and in training mode, without dropout: in evaluation PyTorch takes another path, which
leaves out padding. Draws are those of generate.py.
"""

import json

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from generate import BATCH, HERE, case, draw

SIZE, HEADS, HIDDEN, ROWS, KEYS = 8, 2, 7, 5, 4
LENS, MEMORY_LENS = [5, 3], [2, 4]


def filled(module, group):
    """The module with drawn parameters; those of normalizations are near 1 and 0."""
    module = module.double().train()

    def parameter(name, like):
        drawn = draw(f"{group}/{name}", *like.shape, std=0.3)
        return 1 + drawn / 2 if "norm" in name and name.endswith("weight") else drawn

    module.load_state_dict({n: parameter(n, p) for n, p in module.state_dict().items()})
    return module


def padding(lens, rows):
    return None if lens is None else torch.arange(rows) >= torch.tensor(lens)[:, None]


def causal_mask(causal):
    return torch.ones(ROWS, ROWS, dtype=torch.bool).triu(1) if causal else None


def keep(lens, rows):
    """1 for a row that is no padding, `[batch, rows, 1]`."""
    return 1.0 if lens is None else (~padding(lens, rows)).double().unsqueeze(2)


def config(order, activation):
    return {"d_model": SIZE, "nhead": HEADS, "dim_feedforward": HIDDEN, "dropout": 0.0, "activation": activation,
            "batch_first": True, "norm_first": order == "pre"}


def one(group, module, order, activation, causal, lens, forward, inputs, memory_lens=None):
    """A case of `module`, whose padding is 0 in output and received gradient where it is a stack."""
    module = filled(module, group)
    grad = {"grad_output": draw(f"{group}/grad_output", BATCH, ROWS, SIZE)}
    leaves = inputs | dict(module.named_parameters())
    options = {"order": order, "activation": activation, "causal": causal, "lens": lens, "memory_lens": memory_lens}
    name = "_".join([group, order, activation] + [n for n in ("causal", "lens", "memory_lens") if options[n]])
    return case(name, leaves, lambda x: {"output": forward(module, x)}, grad, **options)


# ---- encoders

def encoder(group, make, order, activation, causal=False, lens=None):
    is_stack = group == "stack"

    def forward(module, x):
        masks = {"src_key_padding_mask": padding(lens, ROWS)}
        masks["mask" if is_stack else "src_mask"] = causal_mask(causal)
        output = module(x["rows"], **masks)
        return output * keep(lens, ROWS) if is_stack else output

    inputs = {"rows": draw("encoder/rows", BATCH, ROWS, SIZE)}
    return one(group, make(config(order, activation)), order, activation, causal, lens, forward, inputs)


class Sandwich(nn.Module):
    """Gemma 2's layer: RMS norms before and after each sublayer, a gated activation, no biases."""

    def __init__(self):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(SIZE, HEADS, bias=False, batch_first=True)
        self.gate, self.linear1 = nn.Linear(SIZE, HIDDEN, bias=False), nn.Linear(SIZE, HIDDEN, bias=False)
        self.linear2 = nn.Linear(HIDDEN, SIZE, bias=False)
        self.norm1, self.norm1_after, self.norm2, self.norm2_after = (nn.RMSNorm(SIZE, eps=1e-6) for _ in range(4))

    def forward(self, rows):
        x = self.norm1(rows)
        attended, _ = self.self_attn(x, x, x, attn_mask=causal_mask(True), need_weights=False)
        rows = rows + self.norm1_after(attended)
        x = self.norm2(rows)
        return rows + self.norm2_after(self.linear2(F.gelu(self.gate(x), approximate="tanh") * self.linear1(x)))


def encoder_layer(c):
    return nn.TransformerEncoderLayer(**c)


def encoder_stack(c):
    return nn.TransformerEncoder(encoder_layer(c), 2, norm=nn.LayerNorm(SIZE), enable_nested_tensor=False)


def encoder_cases():
    layer, stack = encoder_layer, encoder_stack
    rows = {"rows": draw("encoder/rows", BATCH, ROWS, SIZE)}
    yield "transformer_encoder.json", [
        encoder("layer", layer, "post", "relu"),
        encoder("layer", layer, "pre", "relu", causal=True),
        encoder("layer", layer, "post", "gelu", causal=True, lens=LENS),
        encoder("layer", layer, "pre", "gelu", lens=LENS),
        one("layer", Sandwich(), "sandwich", "geglu_tanh", True, None, lambda module, x: module(x["rows"]), rows),
        encoder("stack", stack, "pre", "gelu", causal=True, lens=LENS),
        encoder("stack", stack, "post", "relu", lens=LENS),
    ]


# ---- decoders

def decoder(group, make, order, activation, causal=True, lens=None, memory_lens=None):
    is_stack = group == "stack"

    def forward(module, x):
        output = module(
            x["rows"], x["memory"], tgt_mask=causal_mask(causal), tgt_key_padding_mask=padding(lens, ROWS),
            memory_key_padding_mask=padding(memory_lens, KEYS),
        )
        return output * keep(lens, ROWS) if is_stack else output

    inputs = {"rows": draw("decoder/rows", BATCH, ROWS, SIZE), "memory": draw("decoder/memory", BATCH, KEYS, SIZE)}
    module = make(config(order, activation))
    return one(group, module, order, activation, causal, lens, forward, inputs, memory_lens)


def decoder_layer(c):
    return nn.TransformerDecoderLayer(**c)


def decoder_stack(c):
    return nn.TransformerDecoder(decoder_layer(c), 2, norm=nn.LayerNorm(SIZE))


def decoder_cases():
    layer, stack = decoder_layer, decoder_stack
    yield "transformer_decoder.json", [
        decoder("layer", layer, "post", "relu"),
        decoder("layer", layer, "pre", "gelu", memory_lens=MEMORY_LENS),
        decoder("layer", layer, "post", "gelu", causal=False, lens=LENS),
        decoder("stack", stack, "pre", "relu", lens=LENS, memory_lens=MEMORY_LENS),
        decoder("stack", stack, "post", "gelu", memory_lens=MEMORY_LENS),
    ]


# ---- feed-forward networks

def feed_forward_cases():
    activations = {
        "relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
    }
    gated = {"relu": "reglu", "gelu": "geglu", "gelu_tanh": "geglu_tanh", "silu": "swiglu"}

    def one(name, f, is_gated, bias):
        shapes = {"input": (HIDDEN, SIZE), "output": (SIZE, HIDDEN)} | ({"gate": (HIDDEN, SIZE)} if is_gated else {})
        leaves = {"rows": draw("feed_forward/rows", BATCH, ROWS, SIZE)}
        for layer, shape in shapes.items():
            leaves[f"{layer}.weight"] = draw(f"feed_forward/{layer}", *shape, std=0.5)
            if bias:
                leaves[f"{layer}.bias"] = draw(f"feed_forward/{layer}.bias", shape[0])

        def forward(x):
            def linear(layer, rows):
                return F.linear(rows, x[f"{layer}.weight"], x.get(f"{layer}.bias"))

            hidden = f(linear("gate", x["rows"])) * linear("input", x["rows"]) if is_gated else f(
                linear("input", x["rows"]))
            return {"output": linear("output", hidden)}

        grad = {"grad_output": draw("feed_forward/grad", BATCH, ROWS, SIZE)}
        options = {"order": "none", "activation": name, "causal": False, "lens": None, "memory_lens": None}
        return case(f"{name}{'_bias' if bias else ''}", leaves, forward, grad, **options)

    plain = [one(name, f, False, bias=True) for name, f in activations.items()]
    yield "transformer_feed_forward.json", plain + [
        one(gated[name], f, True, bias=name == "gelu") for name, f in activations.items()
    ]


# ---- state dicts

def write_state_dicts():
    folder, c = HERE / "import", config("post", "relu")

    def state_dict(module, group):
        return {name: tensor.float() for name, tensor in filled(module, group).state_dict().items()}

    torch.save(state_dict(encoder_layer(c), "layer"), folder / "transformer_encoder_layer.pt")
    save_file(state_dict(decoder_layer(c), "layer"), folder / "transformer_decoder_layer.safetensors")
    without_bias = state_dict(encoder_layer(c | {"bias": False}), "layer")
    save_file(without_bias, folder / "transformer_encoder_layer_without_bias.safetensors")
    # As of nn.Transformer.
    stacks = {"encoder": encoder_stack(c), "decoder": decoder_stack(c)}
    state = {f"{stack}.{n}": t for stack, of in stacks.items() for n, t in state_dict(of, "stack").items()}
    torch.save(state, folder / "transformer.pt")


def write(file, cases):
    generator = f"tests/reference/generate_transformer.py, torch {torch.__version__}"
    lines = ",\n".join(json.dumps(c, separators=(",", ":"), allow_nan=False) for c in cases)
    (HERE / file).write_text(f'{{"generator":{json.dumps(generator)},"cases":[\n{lines}\n]}}\n')
    size = (HERE / file).stat().st_size
    assert size < 160_000, (file, size)
    print(f"{file:28} {size:7}", ", ".join(c["name"] for c in cases))


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for subject in (encoder_cases, decoder_cases, feed_forward_cases):
        for file, cases in subject():
            write(file, cases)
    write_state_dicts()
