#!/usr/bin/env bash
# keras-hub 0.32.0 (keras 3.15.1) and transformers 5.24.0: GPT-OSS, whose layers take turns at seeing a window of keys and
# seeing all, has them the other way round in Keras, and a window of 3 is one of 4 keys.
#
# transformers' configuration has the first layer of every two "sliding"; Keras' backbone the second, and its converter
# loads the weights of layer i into layer i. Each layer is asked here which positions the last of ten depends on, by
# changing one at a time. Seen, with sliding_window=3: GptOssBackbone's layers 0 and 2 depend on all ten, 1 and 3 on four,
# 6 to 9; those of MistralBackbone, of the same package, on three, 7 to 9. (So does transformers' GptOssModel in its first
# layer, with torch.) The documentation of the backbone says nothing of turns.
# Needs python 3.11 or later and the registry of Python packages. Exits with 1 once this is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet keras-hub==0.32.0 keras==3.15.1 jax==0.10.2 transformers==5.24.0
export KERAS_BACKEND=jax JAX_PLATFORMS=cpu TF_CPP_MIN_LOG_LEVEL=3
"$folder/venv/bin/python" - 2>"$folder/log" <<'PYTHON' || { cat "$folder/log"; exit 1; }
import keras
import keras_hub
import numpy as np
from transformers import GptOssConfig

layers, length, window = 4, 10, 3
sizes = dict(vocabulary_size=16, num_layers=layers, num_query_heads=2, num_key_value_heads=1, hidden_dim=8)
sizes |= dict(intermediate_dim=8, sliding_window=window)
keras.utils.set_random_seed(0)
models = [
    keras_hub.models.GptOssBackbone(num_experts=2, top_k=2, **sizes),
    keras_hub.models.MistralBackbone(**sizes),
]
states = np.random.default_rng(0).normal(size=(1, length, 8)).astype(np.float32)
changed = np.repeat(states, length, axis=0)
changed[np.arange(length), np.arange(length)] += 1  # one position in each
kinds = GptOssConfig(num_hidden_layers=layers, sliding_window=window).layer_types
seen = []
for model in models:
    for index, layer in enumerate(model.transformer_layers):
        outputs = [layer(x) for x in (states, changed)]
        before, after = (keras.ops.convert_to_numpy(x[0] if isinstance(x, tuple) else x) for x in outputs)
        seen.append(np.flatnonzero(np.abs(after - before)[:, -1].max(axis=-1) > 1e-6).tolist())
        print(f"{model.name}, layer {index}: the last position depends on {seen[-1]}")
print("transformers:", kinds)
sliding = [kind == "sliding_attention" for kind in kinds]
everything, four, three = (list(range(length - n, length)) for n in (length, window + 1, window))
held = [sliding == [True, False] * 2, seen == [everything, four] * 2 + [three] * layers]
raise SystemExit(not all(held))
PYTHON
