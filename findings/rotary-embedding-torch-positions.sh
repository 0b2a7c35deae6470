#!/usr/bin/env bash
# rotary-embedding-torch 0.9.1 (torch 2.15.0), CPU: with xPos, a query that is turned against kept keys has other scores
# than the same one among all queries; and angles that were kept answer for another type, and for other offsets.
#
# xPos scales queries and keys by powers of their positions, counted from the middle of what a call is given. In
# rotate_queries_with_cached_keys the middle of the queries is not that of the keys, and the powers no longer cancel:
# seen, the score of the last position with itself is 0.99, 0.535 and 0.286 of what it is in rotate_queries_and_keys,
# for 8, 512 and 1,024 positions. It is the method that the documentation has for decoding.
# Angles are kept by number of positions alone. After a call in bfloat16, in which positions above 256 are rounded,
# float32 tensors are turned by them, too: 257 as 256 (a module that never saw bfloat16 turns them apart). And
# get_axial_freqs(4, 4, offsets=(2, 1)) is that of (2, 2), or, after a call without offsets, the one without; it is
# right with cache_if_possible=False.
# Needs python 3.11 and the registry of Python packages (torch brings CUDA's libraries, some GiB). Exits with 1 once
# this is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.15.0 numpy rotary-embedding-torch==0.9.1
"$folder/venv/bin/python" - <<'PYTHON'
import torch
from rotary_embedding_torch import RotaryEmbedding

ratios = []
for length in (8, 512, 1024):
    states = torch.zeros(1, 1, length, 16)
    states[..., 0] = 1
    rotary = RotaryEmbedding(dim=16, use_xpos=True)
    query, key = rotary.rotate_queries_and_keys(states, states)
    last, keys = rotary.rotate_queries_with_cached_keys(states[:, :, -1:], states)
    whole, step = float(query[0, 0, -1] @ key[0, 0, -1]), float(last[0, 0, -1] @ keys[0, 0, -1])
    ratios.append(round(step / whole, 3))
    print(f"xPos, {length} positions: the last one's score with itself {whole:.3f}, with kept keys {step:.3f}")

states = torch.ones(1, 1, 300, 8)
fresh, used = RotaryEmbedding(dim=8), RotaryEmbedding(dim=8)
used.rotate_queries_or_keys(states.bfloat16())
same = []
for name, rotary in (("never saw bfloat16", fresh), ("saw bfloat16", used)):
    turned = rotary.rotate_queries_or_keys(states)[0, 0]
    same.append(torch.equal(turned[256], turned[257]))
    print(f"a module that {name}: positions 256 and 257 of float32 are turned alike: {same[-1]}")


def first(rotary, **options):
    angles = rotary.get_axial_freqs(4, 4, **options)[0, 0]  # of the first row and column: the offsets
    return angles[[0, 8]].tolist()


used = RotaryEmbedding(dim=8)
first(used)
forgetful = RotaryEmbedding(dim=8, cache_if_possible=False)
found = [first(rotary, offsets=(2, 1)) for rotary in (RotaryEmbedding(dim=8), used, forgetful)]
print("offsets (2, 1): at first", found[0], "after a call without", found[1], "not kept", found[2])
held = [ratios == [0.99, 0.535, 0.286], same == [False, True], found == [[2, 2], [0, 0], [2, 1]]]
raise SystemExit(not all(held))
PYTHON
