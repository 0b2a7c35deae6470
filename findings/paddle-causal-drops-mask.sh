#!/usr/bin/env bash
# paddlepaddle 3.3.1, CPU: scaled_dot_product_attention(attn_mask=padding, is_causal=True) attends to the padding.
#
# The mask is dropped without a word: the weights are those of is_causal=True alone, bit for bit. The documentation says
# that "the causal mask should not be provided, otherwise the provided mask will be ignored"; a mask of padding is no
# causal mask. PyTorch's function of this name refuses the two together, and JAX's takes both. Asked with five queries and
# keys, the first two to attend to: the last query gives 42 % of its weights to the three masked keys, and without
# is_causal less than 1e-20. A query whose keys are all masked, by a mask of booleans, has NaN from this function and the
# mean of all values, padding included, from paddle.nn.MultiHeadAttention.
# Needs python 3.11 or later and the registry of Python packages. Exits with 1 once this is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet paddlepaddle==3.3.1 setuptools
"$folder/venv/bin/python" - <<'PYTHON'
import warnings

warnings.filterwarnings("ignore")
import numpy as np
import paddle
from paddle.nn.functional import scaled_dot_product_attention

rng = np.random.default_rng(0)
query, keys = (paddle.to_tensor(rng.normal(size=(1, 5, 1, 8)).astype(np.float32)) for _ in range(2))
values = paddle.to_tensor(np.eye(5, 8, dtype=np.float32).reshape(1, 5, 1, 8))  # so that a context is the weights
keep = paddle.to_tensor(np.broadcast_to(np.arange(5) < 2, (1, 1, 5, 5)))


def weights(name, **options):
    found = scaled_dot_product_attention(query, keys, values, training=False, **options).numpy()[0, :, 0, :5]
    print(f"{name:32}", found[-1].astype(float).round(3).tolist())
    return found


padded = weights("mask, last query", attn_mask=keep)
causal = weights("is_causal, last query", is_causal=True)
both = weights("mask and is_causal, last query", attn_mask=keep, is_causal=True)
nothing = paddle.zeros([1, 1, 5, 5], dtype="bool")
empty = weights("mask of no key", attn_mask=nothing)

heads = paddle.nn.MultiHeadAttention(8, 1)
heads.eval()
rows = keys[:, :, 0]
context = heads(query[:, :, 0], rows, rows, attn_mask=nothing)
mean = heads.out_proj(heads.v_proj(rows).mean(axis=1, keepdim=True))
is_mean = bool(paddle.allclose(context, mean.expand_as(context), atol=1e-5))
print("MultiHeadAttention, mask of no key: the mean of all values:", is_mean)
held = [(padded[:, 2:] < 1e-20).all(), np.array_equal(both, causal), both[-1, 2:].sum() > 0.1, np.isnan(empty).all(), is_mean]
raise SystemExit(not all(held))
PYTHON
