#!/usr/bin/env bash
# speechbrain 1.1.2 (torch 2.15.0, torchaudio 2.11.1), CPU: RelPosMHAXL, the attention of the Conformer, reads its
# weights in one order if query, key and value are equal, number for number, and in another one if a single number
# differs.
#
# in_proj_weight has the query's, key's and value's rows of the first head, then those of the second, as long as the
# three inputs compare equal; else all rows of the query, then all of the key, then all of the value. Seen, with 5
# frames of size 8 and two heads: a value that differs from the query by 1e-6 in one number changes results by 0.32. The
# last frame alone, asked of all five, as a decoder with kept keys does it, has not the weights that it has among the
# other frames. With the rows put into the other order, the second call and the third return what the first one did. The
# documentation has nothing of two orders.
# Needs python 3.11 and the registry of Python packages (torch brings CUDA's libraries, some GiB). Exits with 1 once
# this is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.15.0 torchaudio==2.11.1 speechbrain==1.1.2
"$folder/venv/bin/python" - 2>"$folder/log" <<'PYTHON' || { cat "$folder/log"; exit 1; }
import torch
from speechbrain.nnet.attention import RelPosEncXL, RelPosMHAXL

torch.manual_seed(0)
torch.set_grad_enabled(False)
size, heads = 8, 2
attention = RelPosMHAXL(embed_dim=size, num_heads=heads).eval()
frames = torch.randn(1, 5, size)
positions = RelPosEncXL(size)(frames)
almost = frames.clone()
almost[0, 0, 0] += 1e-6


def shown(name, query, value):
    result, weights = attention(query, frames, value, positions)
    last = [round(float(x), 3) for x in weights[0, 0, -1]]
    print(f"{name:31} last frame, head 0: weights {last}, result starts with {float(result[0, -1, 0]):.3f}")
    return result


same = shown("equal inputs:", frames, frames)
other = shown("a number of the value differs:", frames, almost)
step = shown("the last frame as the query:", frames[:, -1:], frames)
by_head = attention.in_proj_weight.view(heads, 3, size // heads, size)
attention.in_proj_weight.copy_(by_head.transpose(0, 1).reshape(3 * size, size).clone())
moved = shown("differs, with the rows moved:", frames, almost)
moved_step = shown("last frame, with the rows moved:", frames[:, -1:], frames)
held = [abs(float((other - same).abs().max()) - 0.3156) < 1e-3, torch.allclose(step, other[:, -1:], atol=1e-5)]
held += [torch.allclose(moved, same, atol=1e-5), torch.allclose(moved_step, same[:, -1:], atol=1e-5)]
raise SystemExit(not all(held))
PYTHON
