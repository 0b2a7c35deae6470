#!/usr/bin/env bash
# onnxruntime 1.32.0, CPU: ONNX's `Attention` with a mask of padding, [batch, 1, 1, keys], runs with one query, and fails
# with any other number of them.
#
# The documentation of the operator has the mask "broadcastable to (batch_size, q_num_heads, q_sequence_length,
# total_sequence_length)", and its last dimension may be shorter than the keys. onnxruntime broadcasts over examples and
# heads, but wants the queries and the keys in full. Seen, with opset 24, four heads and five keys: of six masks it runs
# three and fails on three ("inconsistent q_sequence_length", "inconsistent total_sequence_length"), when it runs, not when
# it loads the model: what answers a single token may fail on its prompt. onnx 1.23.2's reference and openvino 2026.4.1
# run all six, with one result. (torch 2.15.0's exporter writes such nodes, from opset 23 on.)
# Needs python 3.11 or later and the registry of Python packages. Exits with 1 once this is no longer so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnxruntime
import openvino
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

onnxruntime.set_default_logger_severity(4)
rng = np.random.default_rng(0)


def asked(queries, *shape):
    sizes = {"Q": (2, 4, queries, 8), "K": (2, 4, 5, 8), "V": (2, 4, 5, 8)}
    feeds = {name: rng.normal(size=size).astype(np.float32) for name, size in sizes.items()}
    feeds["M"] = np.broadcast_to(np.arange(shape[-1]) < 3, shape).copy()
    kinds = [TensorProto.FLOAT] * 3 + [TensorProto.BOOL]
    inputs = [helper.make_tensor_value_info(n, kind, x.shape) for (n, x), kind in zip(feeds.items(), kinds)]
    output = helper.make_tensor_value_info("Y", TensorProto.FLOAT, feeds["Q"].shape)
    graph = helper.make_graph([helper.make_node("Attention", list(feeds), ["Y"])], "attention", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
    expected = ReferenceEvaluator(model).run(None, feeds)[0]
    core, written = openvino.Core(), model.SerializeToString()
    compiled = core.compile_model(core.read_model(written), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    same = np.allclose(compiled(feeds)[0], expected, atol=1e-5)
    session = onnxruntime.InferenceSession(written, providers=["CPUExecutionProvider"])
    try:
        ran = np.allclose(session.run(None, feeds)[0], expected, atol=1e-5)
        answer = f"the reference's result: {ran}"
    except Exception as error:
        ran, answer = False, "inconsistent" + str(error).strip().rsplit("inconsistent", 1)[-1]
    print(f"{queries} queries, mask {list(shape)}: openvino the reference's result: {same}; onnxruntime {answer}")
    return same, ran


runs = [asked(*case) for case in ((3, 2, 4, 3, 5), (3, 3, 5), (1, 2, 1, 1, 5))]
fails = [asked(*case) for case in ((3, 2, 1, 1, 5), (3, 1, 5), (3, 3, 4))]
raise SystemExit(runs != [(True, True)] * 3 or fails != [(True, False)] * 3)
PYTHON
