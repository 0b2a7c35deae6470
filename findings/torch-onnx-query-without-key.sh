#!/usr/bin/env bash
# torch 2.15.0, CPU: a query that may attend to no key has the context 0 in scaled_dot_product_attention; in what
# torch.onnx.export writes of it by default (opset 20) it has the mean of all values, masked ones included, or NaN, by the
# type of the mask; in what it writes for opset 23, 0.
#
# A mask of booleans is written as a term of 0 and the lowest finite number, and a `Where` after the softmax replaces NaN,
# which no such term can give; a mask of 0 and -inf is added as it is, without that `Where`. Five keys, the first of three
# queries masked whole, run by onnxruntime 1.32.0: 0.2 of each value; NaN; 0 and 0 for opset 23. Converted by openvino
# 2026.4.1 without ONNX, NaN by either mask. The other queries are the same everywhere.
# Needs python 3.11 and the registry of Python packages (torch brings CUDA's libraries, some GiB). Exits with 1 once this
# is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.15.0 numpy onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0 openvino==2026.4.1
PYTHONWARNINGS=ignore "$folder/venv/bin/python" - <<'PYTHON'
import logging

logging.disable(logging.WARNING)
import numpy as np
import onnxruntime
import openvino
import torch


class Attention(torch.nn.Module):
    def forward(self, query, keys, values, mask):
        return torch.nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)


torch.manual_seed(0)
query, keys = torch.randn(1, 1, 3, 8), torch.randn(1, 1, 5, 8)
values = torch.eye(5)[None, None]  # so that a context is the weights
keep = torch.ones(1, 1, 3, 5, dtype=torch.bool)
keep[:, :, 0] = False
seen = {}
for kind, mask in (("booleans", keep), ("0 and -inf", torch.where(keep, 0.0, -torch.inf))):
    inputs = (query, keys, values, mask)
    found = {"torch": Attention()(*inputs).numpy()}
    for opset in (20, 23):
        options = {} if opset == 20 else {"opset_version": opset}
        model = torch.onnx.export(Attention(), inputs, verbose=False, **options).model_proto
        assert model.opset_import[0].version == opset
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        feeds = {field.name: x.numpy() for field, x in zip(session.get_inputs(), inputs)}
        found[f"onnx, opset {opset}"] = session.run(None, feeds)[0]
    model = openvino.convert_model(Attention(), example_input=inputs)
    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found["openvino"] = compiled([x.numpy() for x in inputs])[0]
    for name, contexts in found.items():
        assert np.allclose(contexts[0, 0, 1:], found["torch"][0, 0, 1:], atol=1e-5)
        seen[kind, name] = contexts[0, 0, 0].astype(float).round(3).tolist()
        print(f"{kind:10} {name:14}", seen[kind, name])
zero, mean, nan = ([x] * 5 for x in (0.0, 0.2, np.nan))
expected = [zero, mean, zero, nan, zero, nan, zero, nan]
raise SystemExit(not np.array_equal(list(seen.values()), expected, equal_nan=True))
PYTHON
