#!/usr/bin/env bash
# keras 3.15.1, flax 0.12.8 and equinox 0.13.8 (jax 0.10.2), CPU: a mask of 0 and -inf, as PyTorch's layers take it, is
# taken without a word and read backwards: attention goes to the keys that it masks, and to no other.
#
# Their masks are documented as booleans. Floats are not refused but read as booleans, so that 0 ("attend") is false
# ("masked") and -inf is true. Asked with two keys to attend to and three masked ones: the first two weights are 0, and the
# last three sum to 1. jax.nn.dot_product_attention, asked the same, raises "mask dtype should be bool".
# Needs python 3.11 or later and the registry of Python packages. Exits with 1 once this is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet keras==3.15.1 jax==0.10.2 flax==0.12.8 equinox==0.13.8
KERAS_BACKEND=jax JAX_PLATFORMS=cpu "$folder/venv/bin/python" - <<'PYTHON'
import equinox as eqx
import flax.linen as nn
import jax
import keras
import numpy as np

rng = np.random.default_rng(0)
query = rng.normal(size=(1, 1, 1, 8)).astype(np.float32)
keys = rng.normal(size=(1, 5, 1, 8)).astype(np.float32)
mask = np.where(np.arange(5) < 2, 0.0, -np.inf).astype(np.float32).reshape(1, 1, 1, 5)
print("mask:", mask.ravel().tolist())
values = np.eye(5, 8, dtype=np.float32).reshape(1, 5, 1, 8)  # so that a context is the weights


def backwards(name, weights):
    weights = np.asarray(weights, dtype=np.float64).ravel()[:5]
    print(f"{name:30}", weights.round(3).tolist())
    return (weights[:2] == 0).all() and abs(weights[2:].sum() - 1) < 1e-5


layer = keras.layers.MultiHeadAttention(1, 8, use_bias=False)
_, of_keras = layer(query[:, :, 0], keys[:, :, 0], attention_mask=mask[:, 0], return_attention_scores=True)
of_flax = nn.dot_product_attention(query, keys, values, mask=mask)
heads = eqx.nn.MultiheadAttention(1, 8, key=jax.random.key(0))
weightless = [heads(query[0, :, 0], keys[0, :, 0], keys[0, :, 0], mask=m) for m in (mask[0, 0], mask[0, 0] != 0)]
same = np.array_equal(*map(np.asarray, weightless))
print("equinox, context with that mask as with the booleans of the masked keys:", same)
try:
    jax.nn.dot_product_attention(query, keys, values, mask=mask)
    refused = False
except ValueError as error:
    print("jax.nn:", error)
    refused = "mask dtype should be bool" in str(error)
held = [backwards("keras MultiHeadAttention", of_keras), backwards("flax dot_product_attention", of_flax), same, refused]
raise SystemExit(not all(held))
PYTHON
