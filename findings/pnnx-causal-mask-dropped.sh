#!/usr/bin/env bash
# pnnx 20261020 and ncnn 1.0.20261020, of torch 2.15.0's nn.MultiheadAttention, CPU: with attn_mask and is_causal=True the
# converted layer has no mask, and attends to what comes later; with an attn_mask alone that is a buffer of the module, it
# takes the mask for the queries, and the queries for the mask.
#
# Nothing is said of either: conversion succeeds, and of what it writes nothing names a mask. Seen, with 8 tokens of
# size 8, so that both orders have a valid shape: the first result in ncnn is that of torch without a mask, the second that
# of attention(mask, mask, mask, attn_mask=tokens). add_zero_attn=True is dropped, too. A mask that is an input of the
# module after the tokens is converted right.
# Needs python 3.11 and the registry of Python packages (torch brings CUDA's libraries, some GiB). Exits with 1 once this
# is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.15.0 numpy pnnx==20261020 ncnn==1.0.20261020
cd "$folder"
PYTHONWARNINGS=ignore "$folder/venv/bin/python" - 2>"$folder/log" <<'PYTHON' || { cat "$folder/log"; exit 1; }
import ncnn
import pnnx
import torch

torch.manual_seed(0)
tokens, soft = torch.randn(1, 8, 8), torch.randn(8, 8)
causal = torch.nn.Transformer.generate_square_subsequent_mask(8)


class Layer(torch.nn.Module):
    def __init__(self, mask=None, is_causal=False, **options):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True, **options)
        self.register_buffer("mask", mask)
        self.is_causal = is_causal

    def forward(self, x, mask=None):
        mask = self.mask if mask is None else mask
        return self.attention(x, x, x, attn_mask=mask, is_causal=self.is_causal, need_weights=False)[0]


def converted(name, layer, *inputs):
    pnnx.export(layer.eval(), f"{name}.pt", inputs, fp16=False)
    net = ncnn.Net()
    net.opt.num_threads = 1
    for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage"):
        setattr(net.opt, option, False)
    net.load_param(f"{name}.ncnn.param")
    net.load_model(f"{name}.ncnn.bin")
    extractor = net.create_extractor()
    for index, x in enumerate(inputs):
        extractor.input(f"in{index}", ncnn.Mat(x.numpy().reshape(8, 8)).clone())
    return torch.from_numpy(extractor.extract("out0")[1].numpy().copy())


def near(name, found, expected):
    error = (found - expected).abs().max().item()
    print(f"{name}: differ by {error:.5f}")
    return error < 1e-4


layer = Layer()
held = [near("mask as an input: ncnn and torch", converted("input", layer, tokens, soft), layer(tokens, soft))]
layer = Layer(causal, True)
found = converted("causal", layer, tokens)
held.append(not near("is_causal: ncnn and torch", found, layer(tokens)))
held.append(near("is_causal: ncnn and torch without a mask", found, layer.attention(*[tokens] * 3, need_weights=False)[0]))
layer = Layer(soft)
found = converted("buffer", layer, tokens)
held.append(not near("mask in a buffer: ncnn and torch", found, layer(tokens)))
exchanged = layer.attention(*[soft[None]] * 3, attn_mask=tokens[0], need_weights=False)[0]
held.append(near("mask in a buffer: ncnn and torch with the two exchanged", found, exchanged))
layer = Layer(add_zero_attn=True)
held.append(not near("add_zero_attn: ncnn and torch", converted("zero", layer, tokens), layer(tokens)))
raise SystemExit(not all(held))
PYTHON
if grep -i "mask\|ignore\|not supported" "$folder/log"; then exit 1; fi
