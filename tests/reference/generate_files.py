"""Writes the files in `import`: parameters as PyTorch may hold them (see README.md in this folder).

    pip install torch numpy safetensors && python tests/reference/generate_files.py

All elements are those of `plain`, except in `expanded` and `repeated`, and exact in f16 and bf16.
"""

import warnings

import torch
from safetensors.torch import save_file
from torch import nn

from generate import HERE, draw

FOLDER = HERE / "import"
SHAPES = {"W_q.weight": (5, 2), "W_k.weight": (5, 3), "w_v.weight": (1, 5)}


def stepped(tensor):
    """Every second row and every third column of a larger tensor."""
    rows, columns = tensor.shape
    wide = torch.full((2 * rows, 3 * columns + 1), -7.0)
    wide[::2, 1::3] = tensor
    return wide[::2, 1::3]


def sliced(tensor):
    rows, columns = tensor.shape
    wide = torch.full((rows + 2, columns + 3), -7.0)
    wide[1 : rows + 1, 2 : columns + 2] = tensor
    return wide[1 : rows + 1, 2 : columns + 2]


def shared(tensors):
    """Views of one storage, as cuDNN wants the weights of a recurrent layer."""
    flat = torch.cat([tensor.flatten() for tensor in tensors.values()])
    parts = flat.split([tensor.numel() for tensor in tensors.values()])
    return {name: part.view(SHAPES[name]) for name, part in zip(tensors, parts)}


def negated(tensor):
    """A view that has the sign of each element changed as it is read."""
    view = torch.complex(tensor, -tensor).conj().imag
    assert view.is_neg() and torch.equal(view, tensor)
    return view


def named(case, tensors):
    return {f"{case}.{name}": tensor for name, tensor in tensors.items()}


def each(case, change, tensors, only=("W_q.weight", "W_k.weight")):
    """The tensors, some of them changed."""
    return named(case, {name: change(tensor) if name in only else tensor for name, tensor in tensors.items()})


def views(plain):
    row = {name: tensor[:1] for name, tensor in plain.items()}
    expanded = {name: tensor.expand(SHAPES[name]) for name, tensor in row.items()}
    return {
        **named("plain", plain),
        **each("transposed", lambda t: t.T.contiguous().T, plain),
        **each("sliced", sliced, plain),
        **each("stepped", stepped, plain),
        **named("shared", shared(plain)),
        **named("expanded", expanded),
        **each("repeated", lambda t: t[:1].repeat(t.shape[0], 1), plain),
        **each("float16", torch.Tensor.half, plain),
        **each("bfloat16", torch.Tensor.bfloat16, plain),
        **each("float64", torch.Tensor.double, plain),
        **each("parameter", nn.Parameter, plain),
    }


def unreadable(plain):
    """What is no dense tensor of real numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # quantized tensors are deprecated, but in files
        quantized = torch.quantize_per_tensor(plain["W_q.weight"], 0.1, 0, torch.qint8)
    only = ("W_q.weight",)
    return {
        **each("complex", lambda t: torch.complex(t, t), plain, only),
        **each("float8", lambda t: t.to(torch.float8_e4m3fn), plain, only),
        **each("sparse", torch.Tensor.to_sparse, plain, only),
        **each("quantized", lambda _: quantized, plain, only),
        **each("negated", negated, plain, only),
    }


class AdditiveAttention(nn.Module):
    """Of D2L, with a buffer that its state dict does not have."""

    def __init__(self, plain):
        super().__init__()
        self.W_q, self.W_k, self.w_v = (nn.Linear(*shape[::-1], bias=False) for shape in SHAPES.values())
        self.register_buffer("mask", torch.ones(3), persistent=False)
        self.load_state_dict(plain)


def weight_norms():
    """Weights as lengths and directions, old and new, with a length for each row, for each column and for all; and the
    weights that they stand for."""
    normalized = [
        ("attention", "W_q", "weight", 0), ("attention", "W_k", "weight", 1), ("attention", "w_v", "weight", None),
        ("heads", "", "in_proj_weight", 0), ("heads", "out_proj", "weight", 0),
        ("lstm", "", "weight_hh_l0", 0), ("cell", "", "weight_ih", 0),
        ("espnet", "mlp_enc", "weight", 0), ("espnet", "loc_conv", "weight", 0), ("espnet", "mlp_att", "weight", None),
        ("espnet", "gvec", "weight", 0),
    ]
    tensors = {}
    for form, norm in {"old": nn.utils.weight_norm, "new": nn.utils.parametrizations.weight_norm}.items():
        modules = {
            "attention": AdditiveAttention({n: draw(f"weight_norm/{n}", *shape) for n, shape in SHAPES.items()}),
            "heads": nn.MultiheadAttention(4, 2),
            "lstm": nn.LSTM(5, 7),
            "cell": nn.GRUCell(5, 7),
            "espnet": nn.ModuleDict({
                "mlp_enc": nn.Linear(3, 5), "mlp_dec": nn.Linear(2, 5, bias=False), "gvec": nn.Linear(5, 1),
                "loc_conv": nn.Conv2d(1, 4, (1, 3), bias=False), "mlp_att": nn.Linear(4, 5, bias=False),
            }),
        }
        for name, module in modules.items():
            for own, parameter in module.named_parameters():
                parameter.data = draw(f"weight_norm/{name}.{own}", *parameter.shape).float()
            tensors |= {f"plain.{name}.{own}": t.detach().clone() for own, t in module.named_parameters()}
        for name, path, own, dim in normalized:
            norm(modules[name].get_submodule(path), own, dim)
        for name, module in modules.items():
            for own, tensor in module.state_dict().items():
                is_direction = own.endswith(("_v", "original1"))
                # Directions are of any length.
                tensors[f"{form}.{name}.{own}"] = tensor * 2 if is_direction else tensor
    return tensors


def cells():
    """Two cells of each kind, alone and in a list, and the same parameters as layers."""
    tensors = {}
    for kind, (cell, layers) in {"gru": (nn.GRUCell, nn.GRU), "lstm": (nn.LSTMCell, nn.LSTM)}.items():
        layers = layers(5, 7, num_layers=2)
        listed = nn.ModuleList([cell(5, 7), cell(7, 7)])
        for index, one in enumerate(listed):
            for own in one.state_dict():
                one.get_parameter(own).data.copy_(draw(f"cells/{kind}.{index}.{own}", *one.get_parameter(own).shape))
                layers.get_parameter(f"{own}_l{index}").data.copy_(one.get_parameter(own).data)
        one = cell(5, 7, bias=False)
        one.load_state_dict({own: t for own, t in listed[0].state_dict().items() if "weight" in own})
        modules = {"layers": layers, "cells": listed, "cell": listed[0], "cell_without_bias": one}
        for name, module in modules.items():
            state = module.state_dict()
            tensors |= {f"{kind}.{name}.{own}": tensor.clone() for own, tensor in state.items()}
    return tensors


def write():
    FOLDER.mkdir(exist_ok=True)
    plain = {name: draw(f"import/{name}", *shape).float() for name, shape in SHAPES.items()}
    tensors = {**views(plain), **unreadable(plain)}
    torch.save(tensors, FOLDER / "views.pt")
    torch.save(tensors, FOLDER / "views_legacy.pt", _use_new_zipfile_serialization=False)
    save_file(plain, FOLDER / "plain.safetensors")
    # The name of the first entry, `stem/data.pkl`, has 30 bytes.
    torch.save(plain, FOLDER / "stem_of_21_characters.pt")
    torch.save({"epoch": 3, "model": AdditiveAttention(plain), "seed": 2**64}, FOLDER / "module.pt")
    for kind, layer in {"gru": nn.GRU, "lstm": nn.LSTM}.items():
        layer = layer(5, 7, bias=False)
        state = {name: draw(f"gru/{name}", *p.shape, std=0.5).float() for name, p in layer.named_parameters()}
        torch.save(state, FOLDER / f"{kind}_without_bias.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the old weight_norm is deprecated, but in files
        torch.save(weight_norms(), FOLDER / "weight_norm.pt")
    save_file(cells(), FOLDER / "cells.safetensors")


if __name__ == "__main__":
    write()
