#!/usr/bin/env bash
# keras-hub 0.32.0 (keras 3.15.1, jax 0.10.2): RotaryEmbedding(rope_type="dynamic", scaling_factor=4) is a linear scaling
# by more than 4, of the fastest frequency as of the slowest, and of texts of any length.
#
# "Dynamic" scaling raises the base of the frequencies, by factor ** (size / (size - 2)) at most, so that the fastest one
# stays what it was, and only the slowest is divided by the factor; short texts are not to be scaled at all. This layer
# divides every frequency by that power of the factor instead. Kept of the four frequencies of a head of 8, seen at
# position 1: by "dynamic" 0.157 of each, as by "linear" with a factor of 6.35; by "linear" with 4 it is 0.25; by a raised
# base 1, 0.63, 0.397 and 0.25. A name that the layer does not know, "llama3" or a misspelt one, is taken, and scales
# nothing.
# Needs python 3.11 or later and the registry of Python packages. Exits with 1 once this is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet keras-hub==0.32.0 keras==3.15.1 jax==0.10.2
export KERAS_BACKEND=jax JAX_PLATFORMS=cpu TF_CPP_MIN_LOG_LEVEL=3
"$folder/venv/bin/python" - 2>"$folder/log" <<'PYTHON' || { cat "$folder/log"; exit 1; }
import keras_hub
import numpy as np
from keras import ops

size, factor = 8, 4.0
more = factor ** (size / (size - 2))
unit = np.repeat(np.float32([1, 0]), size // 2)  # turned, it is the cosines and the sines of the angles
states = np.tile(unit, (1, 2, 1))


def frequencies(**options):
    turned = ops.convert_to_numpy(keras_hub.layers.RotaryEmbedding(max_wavelength=10000, **options)(states))
    cosines, sines = np.split(turned[0, 1].astype(np.float64), 2)  # at position 1, an angle is its frequency
    return np.arctan2(sines, cosines)


plain = frequencies()
kept = {
    '"linear", 4': frequencies(rope_type="linear", scaling_factor=factor),
    '"dynamic", 4': frequencies(rope_type="dynamic", scaling_factor=factor),
    f'"linear", {more:.2f}': frequencies(rope_type="linear", scaling_factor=more),
    '"llama3", 4': frequencies(rope_type="llama3", scaling_factor=factor),
    '"dinamic", 4': frequencies(rope_type="dinamic", scaling_factor=factor),
    "raised base": (10000 * more) ** (-np.arange(0, size, 2) / size),
}
kept = {name: found / plain for name, found in kept.items()}
for name, found in kept.items():
    print(f"{name:16}", found.round(3).tolist())
linear, dynamic, stretched, llama, misspelt, raised = kept.values()
held = [np.allclose(linear, 1 / factor), np.allclose(dynamic, 1 / more), np.allclose(dynamic, stretched)]
held += [np.allclose(llama, 1), np.allclose(misspelt, 1), np.allclose(raised[[0, -1]], [1, 1 / factor])]
raise SystemExit(not all(held))
PYTHON
