#!/usr/bin/env bash
# onnxruntime 1.32.0, onnx 1.23.2 and tinygrad 0.14.0, CPU: an attention mask of integers 1 and 0, as tokenizers return it,
# is added to the scores, so that nothing is masked; flax 0.12.8 and keras 3.15.1 mask with the same one.
#
# One query, five keys, mask 1, 1, 0, 0, 0. In the first three every key has a weight, and the weights are those of scores
# that are higher by 1 for the first two. (ONNX's `Attention` lists integer types for its mask; only a boolean one masks.)
# torch 2.15.0 and jax 0.10.2 refuse such a mask.
# Needs python 3.11 or later and the registry of Python packages. Exits with 1 once this is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnx==1.23.2 onnxruntime==1.32.0 tinygrad==0.14.0 keras==3.15.1 jax==0.10.2 flax==0.12.8
DEV=PYTHON KERAS_BACKEND=jax JAX_PLATFORMS=cpu "$folder/venv/bin/python" - <<'PYTHON'
import flax.linen as nn
import keras
import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from tinygrad import Tensor

rng = np.random.default_rng(0)
query = rng.normal(size=(1, 1, 1, 8)).astype(np.float32)
keys = rng.normal(size=(1, 1, 5, 8)).astype(np.float32)
values = np.eye(5, 8, dtype=np.float32).reshape(1, 1, 5, 8)  # so that a context is the weights
mask = np.array([1, 1, 0, 0, 0], dtype=np.int32).reshape(1, 1, 1, 5)

inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n, x in zip("QKV", (query, keys, values))]
inputs.append(helper.make_tensor_value_info("M", TensorProto.INT32, mask.shape))
node = helper.make_node("Attention", list("QKVM"), ["Y"])
output = helper.make_tensor_value_info("Y", TensorProto.FLOAT, [1, 1, 1, 8])
graph = helper.make_graph([node], "attention", inputs, [output])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
feeds = {"Q": query, "K": keys, "V": values, "M": mask}
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
swapped = [x.transpose(0, 2, 1, 3) for x in (query, keys, values)]
layer = keras.layers.MultiHeadAttention(1, 8, use_bias=False)
added = {
    "onnxruntime": session.run(None, feeds)[0],
    "onnx, reference": ReferenceEvaluator(model).run(None, feeds)[0],
    "tinygrad": Tensor(query).scaled_dot_product_attention(Tensor(keys), Tensor(values), attn_mask=Tensor(mask)).numpy(),
}
masked = {
    "flax": nn.dot_product_attention(*swapped, mask=mask),
    "keras": layer(query[:, 0], keys[:, 0], attention_mask=mask[:, 0], return_attention_scores=True)[1],
}
scores = (query @ keys.swapaxes(2, 3)).ravel() / 8**0.5 + mask.ravel()
expected = np.exp(scores) / np.exp(scores).sum()
holds = True
for names, is_added in ((added, True), (masked, False)):
    for name, weights in names.items():
        weights = np.asarray(weights, dtype=np.float64).ravel()[:5]
        print(f"{name:16}", weights.round(3).tolist())
        holds &= np.allclose(weights, expected, atol=1e-5) if is_added else bool((weights[2:] == 0).all())
raise SystemExit(not holds)
PYTHON
