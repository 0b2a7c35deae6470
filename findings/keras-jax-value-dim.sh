#!/usr/bin/env bash
# keras 3.15.1 with the JAX backend (jax 0.10.2), CPU: MultiHeadAttention(num_heads, key_dim, value_dim=another size) works
# if it is asked for its weights too, and raises a TypeError about shapes if it is not.
#
# Without weights it calls jax.nn.dot_product_attention, which takes values of the keys' size alone; that is caught, and the
# way that is taken instead cannot reshape its result. With return_attention_scores=True, or made with dropout, a layer goes
# another way, which works. The documentation has value_dim as "size of each attention head for value", on every backend.
# Seen: contexts [2, 2, 6] in three of the four calls.
# Needs python 3.11 or later and the registry of Python packages. Exits with 1 once this is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet keras==3.15.1 jax==0.10.2
KERAS_BACKEND=jax JAX_PLATFORMS=cpu "$folder/venv/bin/python" - <<'PYTHON'
import logging

logging.disable(logging.ERROR)  # which Keras writes the caught error to
import keras
import numpy as np

rng = np.random.default_rng(0)
query, key, value = (rng.normal(size=(2, n, size)).astype(np.float32) for n, size in ((2, 7), (5, 8), (5, 9)))


def called(value_dim, **options):
    layer = keras.layers.MultiHeadAttention(3, 4, value_dim=value_dim, output_shape=6)
    try:
        result = layer(query, value, key, **options)
        result = result[0] if options else result
        answer = f"context {list(result.shape)}"
    except TypeError as error:
        reason = next(line for line in str(error).splitlines() if "reshape" in line)
        answer = f"TypeError: {reason}"
    print(f"value_dim={value_dim}", options, answer)
    return answer.startswith("context")


held = [called(dim, **options) for dim in (4, 5) for options in ({"return_attention_scores": True}, {})]
raise SystemExit(held != [True, True, True, False])
PYTHON
