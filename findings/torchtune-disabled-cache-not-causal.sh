#!/usr/bin/env bash
# torchtune 0.6.1 (torchao 0.10.0, torch 2.15.0), CPU: a model whose cache is set up and switched off, by
# disable_kv_cache, is not causal: every position sees those after it.
#
# The documentation has "If no mask is specified, a causal mask is used by default", and of disable_kv_cache that calls
# within it "will not use KV-caches". The attention is causal without a mask only where there is no cache at all; that
# it is switched off does not count. (A call that uses the cache without a mask is refused.) Seen, with a Llama 3.2 of
# one layer: if the last of six tokens changes, the last output changes alone; after setup_caches, within
# disable_kv_cache, the outputs of all six. A loss that is computed there is one of a model that sees the answer.
# Needs python 3.11 and the registry of Python packages (torch brings CUDA's libraries, some GiB). Exits with 1 once
# this is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.15.0 numpy torchao==0.10.0 torchtune==0.6.1
"$folder/venv/bin/python" - 2>"$folder/log" <<'PYTHON' || { cat "$folder/log"; exit 1; }
import torch
from torchtune.models.llama3_2 import llama3_2
from torchtune.modules import delete_kv_caches, disable_kv_cache

torch.manual_seed(0)
torch.set_grad_enabled(False)
sizes = dict(vocab_size=32, num_layers=1, num_heads=2, num_kv_heads=1, embed_dim=16, intermediate_dim=32)
model = llama3_2(max_seq_len=16, **sizes).eval()
for weight in model.parameters():
    torch.nn.init.normal_(weight, std=0.5)
tokens = torch.randint(0, 32, (1, 6))
changed = tokens.clone()
changed[0, -1] = (changed[0, -1] + 1) % 32


def shown(name):
    difference = (model(tokens) - model(changed)).abs().amax(dim=-1)[0]
    found = torch.nonzero(difference > 1e-4).flatten().tolist()
    print(f"{name}: positions that depend on the last token {found}")
    return found


seen = [shown("no cache")]
model.setup_caches(batch_size=1, dtype=torch.float32, decoder_max_seq_len=16)
with disable_kv_cache(model):
    seen.append(shown("cache set up, switched off"))
delete_kv_caches(model)
seen.append(shown("cache deleted"))
raise SystemExit(seen != [[5], [0, 1, 2, 3, 4, 5], [5]])
PYTHON
