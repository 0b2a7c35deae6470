"""Writes what ONNX and PyTorch say of attention, case by case, for the Rust tests to compare against (see README.md).

    pip install onnx==1.23.2 torch==2.15.0 numpy && python tests/reference/generate_conformance.py

- `onnx_attention.json`, `onnx_rotary_embedding.json`: every node test of the operators `Attention` and
  `RotaryEmbedding` in ONNX's backend test suite, but for those of the expanded functions, whose inputs and outputs are
  the same; with the inputs and outputs that stand there. `present_key` and `present_value` are checked here to be the
  past and the new rows, and left out.
- `torch_attention.json`: `torch.nn.functional.scaled_dot_product_attention`, over the grid of `test_transformers.py`
  (axes, mask shapes and types, alignment, scales, grouped heads), at small sizes.
- `torch_multi_head.json`: `torch.nn.MultiheadAttention`, over the grid of PyTorch's own module tests
  (`common_modules.py`), and what those leave out: float masks, other sizes of keys and values, sequence first.

PyTorch's are computed in float64, with gradients. A draw depends on nothing but its name and shape.
"""

import json
import math
import warnings
import zlib
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import helper
from onnx.backend.test.case.node import collect_testcases
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.functional import scaled_dot_product_attention

HERE = Path(__file__).resolve().parent / "conformance"
TYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "bool": "bool"}


# ---- writing

def number(x, digits):
    """The shortest text that reads back as the same number of its type, or so many significant digits of it.

    JSON has no infinity: a float mask's -inf is null. Adding 0 turns -0.0 into 0.0.
    """
    if x == -math.inf:
        return "null"
    assert np.isfinite(x)
    x = x + type(x)(0)
    text = f"{x:.{digits}g}" if digits else str(x)
    return text.removesuffix(".0").replace("e+", "e")


class File:
    """Cases, and the elements of their tensors: many share inputs, and those of ONNX often in another shape."""

    def __init__(self, name, generator):
        self.path = HERE / f"{name}.json"
        self.generator = f"tests/reference/generate_conformance.py, {generator}"
        self.data, self.cases = {}, []

    def tensor(self, array, digits=None):
        if array.dtype == np.bool_:
            texts = [str(int(x)) for x in array.flatten()]
        elif array.dtype == np.int64:
            texts = [str(x) for x in array.flatten()]
        else:
            texts = [number(x, digits) for x in array.flatten()]
        index = self.data.setdefault(",".join(texts), len(self.data))
        return {"shape": list(array.shape), "type": TYPES[str(array.dtype)], "data": index}

    def add(self, name, attributes, inputs, outputs, gradients=None, digits=None):
        assert name not in [case["name"] for case in self.cases], name
        self.cases.append({
            "name": name,
            "attributes": attributes,
            "inputs": {name: self.tensor(array) for name, array in inputs.items()},
            "outputs": {name: self.tensor(array, digits) for name, array in outputs.items()},
            "gradients": {name: self.tensor(array, digits) for name, array in (gradients or {}).items()},
        })

    def write(self):
        cases = ",\n".join(json.dumps(case, separators=(",", ":"), allow_nan=False) for case in self.cases)
        data = ",\n".join(f"[{texts}]" for texts in self.data)
        text = f'{{"generator":{json.dumps(self.generator)},"cases":[\n{cases}\n],"data":[\n{data}\n]}}\n'
        json.loads(text)
        self.path.write_text(text)
        print(f"{self.path.name:28} {len(self.cases):4} cases {self.path.stat().st_size:8} bytes")


# ---- ONNX

def attributes_of(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def heads_of(rows, heads):
    """`[batch, heads, rows, size]` of `[batch, rows, heads * size]`."""
    batch, length, size = rows.shape
    return rows.reshape(batch, length, heads, size // heads).swapaxes(1, 2)


def without_present(test, attributes, inputs, outputs):
    for of, name in ("key", "K"), ("value", "V"):
        if (present := outputs.pop(f"present_{of}", None)) is not None:
            new = inputs[name]
            new = heads_of(new, attributes["kv_num_heads"]) if new.ndim == 3 else new
            assert np.array_equal(present, np.concatenate([inputs[f"past_{of}"], new], 2)), test.name


def onnx_cases():
    files = {
        "Attention": File("onnx_attention", f"onnx {onnx.__version__}"),
        "RotaryEmbedding": File("onnx_rotary_embedding", f"onnx {onnx.__version__}"),
    }
    with warnings.catch_warnings():
        # It computes the cases of every operator, some of which overflow as they should.
        warnings.simplefilter("ignore", RuntimeWarning)
        tests = collect_testcases(None)
    for test in tests:
        nodes = test.model.graph.node
        if len(nodes) != 1 or nodes[0].op_type not in files:
            continue
        [node] = nodes
        [(arrays, results)] = test.data_sets
        inputs = dict(zip([name for name in node.input if name], arrays))
        outputs = dict(zip([name for name in node.output if name], results))
        attributes = attributes_of(node)
        without_present(test, attributes, inputs, outputs)
        files[node.op_type].add(test.name, attributes, inputs, outputs)
    for file in files.values():
        file.write()


# ---- PyTorch

def draw(name, *shape, std=1.0):
    """Normally distributed elements, multiples of 1/16 in [-3, 3], seeded by `name`."""
    rng = torch.Generator().manual_seed(zlib.crc32(f"{name}{list(shape)}".encode()))
    x = torch.randn(*shape, generator=rng, dtype=torch.float64) * std
    return (x * 16).round().clamp(-48, 48) / 16


def draw_bool(name, *shape, share):
    """True with the probability `share`."""
    rng = torch.Generator().manual_seed(zlib.crc32(f"{name}{list(shape)}".encode()))
    return torch.rand(*shape, generator=rng) < share


def add(file, name, attributes, inputs, forward, cotangents):
    """`forward(leaves)`, and the gradients of loss = sum of outputs[NAME] * grad_NAME over the cotangents."""
    leaves = {n: t.clone().requires_grad_() if t.is_floating_point() else t for n, t in inputs.items()}
    outputs = forward(leaves)
    given = {f"grad_{n}": t for n, t in cotangents.items()}
    loss = sum((outputs[n] * t).sum() for n, t in cotangents.items())
    wanted = {n: t for n, t in leaves.items() if t.requires_grad}
    gradients = dict(zip(wanted, torch.autograd.grad(loss, wanted.values())))
    arrays = [{n: t.detach().numpy() for n, t in tensors.items()} for tensors in (inputs | given, outputs, gradients)]
    file.add(name, attributes, *arrays, digits=9)


BATCH, HEADS, QUERIES, KEYS, SIZE, VALUE_SIZE = 2, 3, 4, 5, 3, 2


def rows(heads, queries, keys, key_heads=None, value_size=SIZE):
    """Query, key and value of 4 axes, or of 3 where `heads` is None."""
    of_queries, of_keys = [[] if n is None else [n] for n in (heads, key_heads or heads)]
    return {
        "query": draw("query", BATCH, *of_queries, queries, SIZE),
        "key": draw("key", BATCH, *of_keys, keys, SIZE),
        "value": draw("value", BATCH, *of_keys, keys, value_size),
    }


def mask(kind, *shape):
    if kind == "float":
        return {"attn_mask": draw("mask", *shape)}
    keep = draw_bool("mask", *shape, share=0.6)
    # Some of each, if there are two.
    keep.view(-1)[-1], keep.view(-1)[0] = False, True
    return {"attn_mask": keep}


def torch_attention():
    file = File("torch_attention", f"torch {torch.__version__}")

    def one(name, inputs, bias=None, **attributes):
        def forward(leaves):
            options = {n: a for n, a in attributes.items() if n != "attn_bias"}
            attn_mask = leaves.get("attn_mask", bias)
            with sdpa_kernel(SDPBackend.MATH):
                return {"output": scaled_dot_product_attention(
                    leaves["query"], leaves["key"], leaves["value"], attn_mask=attn_mask, **options)}

        shape = (*inputs["query"].shape[:-1], inputs["value"].shape[-1])
        add(file, name, attributes, inputs, forward, {"output": draw("cotangent", *shape)})

    # test_scaled_dot_product_attention: axes, lengths, is_causal.
    for axes, (queries, keys), causal in product((3, 4), ((4, 5), (5, 4), (5, 5), (1, 5)), (False, True)):
        name = f"axes_{axes}_{queries}x{keys}{'_causal' * causal}"
        one(name, rows(HEADS if axes == 4 else None, queries, keys), is_causal=causal)
    for kind, shape in product(("bool", "float"), ((QUERIES, KEYS), (BATCH, QUERIES, KEYS))):
        one(f"axes_3_mask_{kind}_{'x'.join(map(str, shape))}", rows(None, QUERIES, KEYS) | mask(kind, *shape))

    # test_scaled_dot_product_fused_attention_mask_vs_math_cpu: every mask that broadcasts.
    two = product((QUERIES, 1), (KEYS, 1))
    four = product((BATCH, 1), (HEADS, 1), (QUERIES, 1), (KEYS, 1))
    for shape, kind in product([*two, *four], ("bool", "float")):
        one(f"mask_{kind}_{'x'.join(map(str, shape))}", rows(HEADS, QUERIES, KEYS) | mask(kind, *shape))

    # test_fully_masked_out_rows, by booleans and by -inf.
    keep = draw_bool("some", BATCH, HEADS, QUERIES, KEYS, share=0.6)
    keep[0, :, 1], keep[1, 2, 3] = False, False
    one("fully_masked_bool", rows(HEADS, QUERIES, KEYS) | {"attn_mask": keep})
    minus_infinity = draw("mask", BATCH, HEADS, QUERIES, KEYS).masked_fill(~keep, -math.inf)
    one("fully_masked_float", rows(HEADS, QUERIES, KEYS) | {"attn_mask": minus_infinity})

    # test_scaled_dot_product_attention_math_with_negative_scale, and the scale "l1".
    for scale, causal in product((-2.0, 1.0, 1 / SIZE), (False, True)):
        one(f"scale_{scale:.2g}{'_causal' * causal}", rows(HEADS, QUERIES, KEYS), scale=scale, is_causal=causal)

    # enable_gqa, and values of another size.
    for heads, key_heads in (4, 2), (6, 2), (3, 1):
        name, given = f"gqa_{heads}_{key_heads}", rows(heads, QUERIES, KEYS, key_heads, VALUE_SIZE)
        one(name, given, enable_gqa=True)
        one(f"{name}_causal", given, enable_gqa=True, is_causal=True)
        one(f"{name}_bool", given | mask("bool", BATCH, heads, QUERIES, KEYS), enable_gqa=True)
        one(f"{name}_float", given | mask("float", 1, heads, QUERIES, KEYS), enable_gqa=True)
    for axes in (3, 4):
        given = rows(HEADS if axes == 4 else None, QUERIES, KEYS, value_size=VALUE_SIZE)
        one(f"value_size_axes_{axes}", given)
        one(f"value_size_axes_{axes}_causal", given, is_causal=True)
        one(f"value_size_axes_{axes}_float", given | mask("float", QUERIES, KEYS))

    # TestAttnBias: both alignments of a causal mask.
    for (queries, keys), (variant, bias) in product(
        ((4, 4), (3, 6), (6, 3), (1, 5)),
        (("upper_left", causal_upper_left), ("lower_right", causal_lower_right)),
    ):
        # It warns of NaN where there are more queries than keys, and gives 0.
        one(f"{variant}_{queries}x{keys}", rows(HEADS, queries, keys), bias(queries, keys), attn_bias=variant)

    # sample_inputs_scaled_dot_product_attention: queries without a batch, and dropout, whose draw is PyTorch's own.
    given = rows(HEADS, QUERIES, KEYS)
    one("broadcast_batch", given | {"query": draw("query", HEADS, QUERIES, SIZE)})
    file.add("dropout", {"dropout_p": 0.5}, {n: t.numpy() for n, t in given.items()}, {})
    file.write()


EMBED, MULTI_HEADS, TARGET, SOURCE = 6, 2, 3, 4


def torch_multi_head():
    file = File("torch_multi_head", f"torch {torch.__version__}")

    def one(name, masks=None, module=None, kdim=EMBED, vdim=EMBED, target=TARGET, batch_first=True, **options):
        module = {"bias": True, "add_bias_kv": False, "add_zero_attn": False} | (module or {})
        sizes = {} if kdim == vdim == EMBED else {"kdim": kdim, "vdim": vdim}
        layer = nn.MultiheadAttention(EMBED, MULTI_HEADS, batch_first=batch_first, **module, **sizes).double()
        parameters = {n: draw(n, *p.shape, std=0.5) for n, p in layer.named_parameters()}
        lengths = {"query": (target, EMBED), "key": (SOURCE, kdim), "value": (SOURCE, vdim)}
        inputs = {n: draw(n, BATCH, *shape) for n, shape in lengths.items()}
        if not batch_first:
            inputs = {n: t.transpose(0, 1).contiguous() for n, t in inputs.items()}
        masks = masks or {}

        def forward(leaves):
            given = tuple(leaves[n] for n in lengths)
            options_and_masks = options | {n: leaves[n] for n in masks}
            state = {n: leaves[n] for n in parameters}
            output, weights = torch.func.functional_call(layer, state, given, options_and_masks)
            return {"output": output} if weights is None else {"output": output, "weights": weights}

        shapes = {n: t.shape for n, t in forward(inputs | parameters | masks).items()}
        cotangents = {n: draw(f"{n} cotangent", *shape) for n, shape in shapes.items()}
        attributes = {"num_heads": MULTI_HEADS, "batch_first": batch_first} | module | options
        add(file, name, attributes, inputs | parameters | masks, forward, cotangents)

    # Every query keeps some key.
    padding = torch.tensor([[False, False, False, True], [False, True, False, True]])
    of_heads = draw_bool("drop", BATCH * MULTI_HEADS, TARGET, SOURCE, share=0.4)
    of_heads[:, :, 0] = False

    # module_inputs_torch_nn_MultiheadAttention
    bools = (False, True)
    for bias, bias_kv, zero, padded, masked in product((True, False), bools, bools, bools, bools):
        parts = {"no_bias": not bias, "bias_kv": bias_kv, "zero": zero, "padding": padded, "mask": masked}
        masks = ({"key_padding_mask": padding} if padded else {}) | ({"attn_mask": of_heads} if masked else {})
        name = "_".join(part for part, has in parts.items() if has) or "plain"
        one(name, masks, {"bias": bias, "add_bias_kv": bias_kv, "add_zero_attn": zero})

    both = {"add_bias_kv": True, "add_zero_attn": True}
    float_2d = {"attn_mask": draw("float_mask", TARGET, SOURCE)}
    float_3d = {"attn_mask": draw("float_mask", BATCH * MULTI_HEADS, TARGET, SOURCE)}
    float_padding = {"key_padding_mask": draw("float_padding", BATCH, SOURCE)}
    # A query without a key of its own attends to those that are added.
    keyless = of_heads.clone()
    keyless[:, 1] = True
    for bias_kv, zero in (True, False), (False, True), (True, True):
        name = f"keyless{'_bias_kv' * bias_kv}{'_zero' * zero}"
        one(name, {"attn_mask": keyless}, {"add_bias_kv": bias_kv, "add_zero_attn": zero})
    one("float_mask_2d", float_2d)
    one("float_mask_3d", float_3d)
    one("float_mask_3d_bias_kv_zero", float_3d, both)
    one("float_padding", float_padding)
    one("float_padding_and_mask", float_padding | float_3d)
    one("float_padding_and_mask_bias_kv_zero", float_padding | float_2d, both)
    one("bool_mask_2d", {"attn_mask": of_heads[0].clone()})
    one("padding_and_bool_mask_2d", {"attn_mask": of_heads[0].clone(), "key_padding_mask": padding})
    one("causal", {"attn_mask": torch.ones(SOURCE, SOURCE).triu(1).bool()}, target=SOURCE, is_causal=True)
    one("sizes", kdim=5, vdim=4)
    one("sizes_bias_kv_zero", {"key_padding_mask": padding}, both, kdim=5, vdim=4)
    one("weights_of_heads", {"key_padding_mask": padding}, average_attn_weights=False)
    one("weights_of_heads_bias_kv_zero", float_3d, both, average_attn_weights=False)
    one("no_weights", {"attn_mask": of_heads}, need_weights=False)
    one("no_weights_bias_kv_zero", float_3d, both, need_weights=False)
    one("sequence_first", {"key_padding_mask": padding}, batch_first=False)
    file.add("dropout", {"num_heads": MULTI_HEADS, "dropout": 0.5}, {}, {})
    file.write()


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    onnx_cases()
    torch_attention()
    torch_multi_head()
