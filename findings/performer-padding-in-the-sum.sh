#!/usr/bin/env bash
# performer-pytorch 1.1.4 and torch-geometric 2.8.1 (torch 2.15.0), CPU: in linear attention a mask of padding makes the
# values 0 and leaves the keys, so that padding keeps its share of the weights, and results change with its length.
#
# A context is divided by the sum over all keys, those of the padding included. Seen, with values that are all 1, where
# every context should be 1: a text of four tokens in performer-pytorch's SelfAttention has contexts of 1 alone, of 0.39
# to 0.47 with 4 masked tokens after it, and of 0.04 to 0.06 with 60.
# PyTorch Geometric's layers pad every graph to the size of the largest one of the batch. Seen: a graph of 3 nodes
# beside one of 300 has other results than alone, by 0.15 in GPSConv(attn_type="performer"), by 0.41 beside one of
# 3,000, and by 0.04 in SGFormer, which has the padded size in its formula, too; GPSConv's "multihead" has the same
# ones. The documentation of the mask: "indicating the valid nodes for each graph".
# Needs python 3.11 and the registry of Python packages (torch brings CUDA's libraries, some GiB). Exits with 1 once
# this is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.15.0 numpy setuptools performer-pytorch==1.1.4 torch-geometric==2.8.1
"$folder/venv/bin/python" - 2>"$folder/log" <<'PYTHON' || { cat "$folder/log"; exit 1; }
import torch
from performer_pytorch import SelfAttention
from torch_geometric.nn import GPSConv, SGFormer

torch.manual_seed(0)
torch.set_grad_enabled(False)
layer = SelfAttention(dim=16, heads=2, dim_head=8, qkv_bias=True).eval()
layer.to_v.weight.zero_()
layer.to_v.bias.fill_(1)  # so that every value is 1
layer.to_out = torch.nn.Identity()
text = torch.randn(1, 4, 16)
contexts = []
for padding in (0, 4, 60):
    padded = torch.nn.functional.pad(text, (0, 0, 0, padding))
    contexts.append(layer(padded, mask=torch.arange(4 + padding)[None] < 4)[0, :4].mean(-1))
    print(f"performer-pytorch, {padding} masked tokens: contexts {[round(float(x), 3) for x in contexts[-1]]}")

models = {
    'GPSConv, "multihead"': GPSConv(16, None, heads=2, norm=None),
    'GPSConv, "performer"': GPSConv(16, None, heads=2, norm=None, attn_type="performer"),
    "SGFormer": SGFormer(16, 16, 4),
}
graph, edges = torch.randn(3, 16), torch.tensor([[0, 1], [1, 2]])
changes = {}
for name, model in models.items():
    alone = model.eval()(graph, edges, torch.zeros(3, dtype=torch.long))
    for size in (3, 300, 3000):
        nodes, batch = torch.cat([graph, torch.randn(size, 16)]), torch.tensor([0] * 3 + [1] * size)
        changes[name, size] = float((model(nodes, edges, batch)[:3] - alone).abs().max())
        print(f"{name}, beside a graph of {size}: results change by {changes[name, size]:.4f}")
held = [bool(((contexts[i] > low) & (contexts[i] < high)).all()) for i, low, high in ((0, 0.999, 1.001), (1, 0.3, 0.6))]
held += [bool((contexts[2] < 0.1).all())]
held += [(change > 0.02) == (size > 3 and "multihead" not in name) for (name, size), change in changes.items()]
raise SystemExit(not all(held))
PYTHON
