#!/usr/bin/env bash
# keras-hub 0.32.0 (keras 3.15.1): Qwen 2 and Qwen 3 keep to their sliding window on the backend TensorFlow (2.21.0), and
# ignore it on JAX (0.10.2), without a word.
#
# Where the backend has a fused attention, on JAX also on the CPU, these two hand it the causal mask before they make the
# window's, which is made only on the other way. disable_flash_attention() changes nothing. Seen, with a window of 3: the
# last of ten positions of a single layer depends on positions 7 to 9 with TensorFlow, on all ten with JAX, and the same
# weights give other numbers; Qwen's mixture of experts has 7 to 9 on both.
# Needs python 3.11 or later and the registry of Python packages. Exits with 1 once this is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet keras-hub==0.32.0 keras==3.15.1 jax==0.10.2 tensorflow==2.21.0
cat >"$folder/show.py" <<'PYTHON'
import keras
import keras_hub
import numpy as np

length, window = 10, 3
sizes = dict(vocabulary_size=16, num_layers=1, num_query_heads=2, num_key_value_heads=1, hidden_dim=8, intermediate_dim=8)
sliding = dict(use_sliding_window_attention=True, sliding_window_size=window)
experts = dict(moe_intermediate_dim=8, shared_expert_intermediate_dim=8, num_experts=2, top_k=2)
keras.config.disable_flash_attention()
models = [
    keras_hub.models.QwenBackbone(**sizes, **sliding),
    keras_hub.models.Qwen3Backbone(**sizes, head_dim=4, sliding_window_size=window),
    keras_hub.models.QwenMoeBackbone(**sizes, **sliding, **experts),
]
tokens = np.tile(np.arange(length), (length + 1, 1))
tokens[np.arange(length) + 1, np.arange(length)] = 15  # one position changed in each but the first
for model in models:
    rng = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(rng.normal(scale=0.5, size=weight.shape))
    outputs = model({"token_ids": tokens, "padding_mask": np.ones_like(tokens)})
    outputs = keras.ops.convert_to_numpy(outputs)[:, -1]
    seen = np.flatnonzero(np.abs(outputs[1:] - outputs[0]).max(axis=-1) > 1e-6).tolist()
    print(f"{model.name}: {seen}, first number {outputs[0, 0]:.2f}")
PYTHON
for backend in tensorflow jax; do
    echo "$backend, what the last position depends on:"
    KERAS_BACKEND=$backend JAX_PLATFORMS=cpu TF_CPP_MIN_LOG_LEVEL=3 "$folder/venv/bin/python" "$folder/show.py" \
        2>"$folder/log" | tee "$folder/$backend" || { cat "$folder/log"; exit 1; }
done
all='\[0, 1, 2, 3, 4, 5, 6, 7, 8, 9\]'
[[ $(grep -c ': \[7, 8, 9\],' "$folder/tensorflow") == 3 ]]
grep -q "^qwen_backbone: $all" "$folder/jax"
grep -q "^qwen3_backbone: $all" "$folder/jax"
grep -q '^qwen_moe_backbone: \[7, 8, 9\],' "$folder/jax"
[[ $(sed -n 's/^qwen_backbone.*number//p' "$folder/jax") != $(sed -n 's/^qwen_backbone.*number//p' "$folder/tensorflow") ]]
