#!/usr/bin/env bash
# local-attention 1.11.2 (torch 2.15.0), CPU: where LocalAttention is not causal, autopad=True lets the padding take a
# part of the attention; and with rotary positions a query stands one window after itself.
#
# autopad fills the last window with keys and values of 0, which only a mask that the caller gives keeps away from the
# queries. Seen, with windows of 4 and a text of 5: its weights for the five tokens sum to 0.64 to 0.76 instead of 1;
# with a mask of five ones, or causal=True, to 1.
# Rotary positions (dim=...) number the keys that a window sees, those of the windows before and after it included; its
# queries get the last of these numbers, which belong to the window after theirs. Seen, with equal queries and keys, and
# a text of one token repeated: a query of the first two of three windows has its largest weight at the key four places
# later; if causal, or with look_forward=0, at its own place.
# Needs python 3.11 and the registry of Python packages (torch brings CUDA's libraries, some GiB). Exits with 1 once
# this is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.15.0 numpy local-attention==1.11.2
"$folder/venv/bin/python" - <<'PYTHON'
import torch
from local_attention import LocalAttention

torch.manual_seed(0)
query, key = torch.randn(2, 1, 5, 8)
values = torch.eye(5)[None]  # so that a result is the weights
sums = []
for options, mask in (({}, None), ({}, torch.ones(1, 5, dtype=torch.bool)), ({"causal": True}, None)):
    weights = LocalAttention(window_size=4, autopad=True, **options)(query, key, values, mask=mask)[0]
    sums.append(weights.sum(-1))
    shown = [round(float(x), 2) for x in sums[-1]]
    print("autopad", options, "without a mask:" if mask is None else "with a mask of ones:", shown)

token = torch.tensor([4.0] * 4 + [0.0] * 4)
text, values = token.expand(1, 12, 8), torch.eye(12)[None]
peaks = []
for options in ({}, {"look_forward": 0}, {"causal": True}):
    weights = LocalAttention(window_size=4, dim=8, **options)(text, text, values)[0]
    peaks.append(weights.argmax(-1).tolist())
    print("rotary", options, "largest weights of the twelve queries at", peaks[-1])
one = torch.ones(5)
held = [bool((sums[0] < 0.8).all()), torch.allclose(sums[1], one), torch.allclose(sums[2], one)]
held += [peaks[0][:8] == list(range(4, 12)), peaks[1] == list(range(12)), peaks[2] == list(range(12))]
raise SystemExit(not all(held))
PYTHON
