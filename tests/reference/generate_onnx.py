"""Writes what ONNX says of its operators GRU and LSTM, for the Rust tests to compare against (see README.md here).

    pip install onnx==1.23.2 numpy && python tests/reference/generate_onnx.py

Two kinds of cases:
- `test_*`: ONNX's own, all that its backend test suite has, with the inputs and outputs that stand there.
- others: made here, since ONNX's GRUs all have its default, `linear_before_reset=0`, and none of its cases has initial
  states or lengths. `onnx.reference`, the package's implementation in numpy, computes them in float64. It ignores
  `sequence_lens`: an example of some steps is computed alone, and 0 on padding. A draw depends on nothing but its name.
"""

import json
import warnings
import zlib
from pathlib import Path

import numpy as np
import onnx
from onnx import helper
from onnx.backend.test.case.node import collect_testcases
from onnx.reference import ReferenceEvaluator

HERE = Path(__file__).resolve().parent
# The tolerance of ONNX's suite.
RTOL, ATOL = 1e-3, 1e-7
ATTRIBUTES = {"hidden_size", "direction", "layout", "linear_before_reset"}
INPUTS = {
    "GRU": ["X", "W", "R", "B", "sequence_lens", "initial_h"],
    "LSTM": ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"],
}
OUTPUTS = {"GRU": ["Y", "Y_h"], "LSTM": ["Y", "Y_h", "Y_c"]}
GATES = {"GRU": 3, "LSTM": 4}
STEPS, BATCH, INPUT_SIZE, HIDDEN_SIZE = 7, 3, 2, 5


def evaluate(op, attributes, inputs):
    """All outputs by name."""
    names = [name if name in inputs else "" for name in INPUTS[op]]
    node = helper.make_node(op, names, OUTPUTS[op], **attributes)
    typed = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in inputs.items()}
    given = [helper.make_tensor_value_info(name, dtype, inputs[name].shape) for name, dtype in typed.items()]
    made = [helper.make_tensor_value_info(name, typed["X"], None) for name in OUTPUTS[op]]
    model = helper.make_model(helper.make_graph([node], op, given, made))
    return dict(zip(OUTPUTS[op], ReferenceEvaluator(model).run(None, inputs)))


def tensor(array, exact):
    """Inputs, and ONNX's outputs, are f32 and written exactly; our outputs have 10 significant digits."""
    array = np.asarray(array, np.float64)
    assert np.isfinite(array).all() and (not exact or (array == array.astype(np.float32)).all())
    data = [(x if exact else float(f"{x:.10g}")) + 0.0 for x in array.flatten().tolist()]
    return {"shape": list(array.shape), "data": data}


def case(name, attributes, inputs, outputs, exact):
    return {
        "name": name,
        "direction": attributes.get("direction", "forward"),
        "layout": attributes.get("layout", 0),
        "linear_before_reset": attributes.get("linear_before_reset", 0),
        "inputs": {name: tensor(array, True) for name, array in inputs.items()},
        "outputs": {name: tensor(array, exact) for name, array in outputs.items()},
    }


# ---- ONNX's own

def attributes_of(node):
    values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


def of_suite(op):
    cases = []
    for test in suite():
        nodes = test.model.graph.node
        if [node.op_type for node in nodes] != [op]:
            continue
        [node] = nodes
        [(arrays, results)] = test.data_sets
        inputs = dict(zip([name for name in node.input if name], arrays))
        outputs = dict(zip([name for name in node.output if name], results))
        assert set(inputs) <= set(INPUTS[op]) and set(outputs) <= set(OUTPUTS[op]), test.name
        assert (test.rtol, test.atol) == (RTOL, ATOL), test.name
        attributes = attributes_of(node)
        assert set(attributes) <= ATTRIBUTES, test.name
        cases.append(case(test.name, attributes, inputs, outputs, True))
    return cases


def suite():
    """All node tests; it computes those of every operator, some of which overflow as they should."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return collect_testcases(None)


# ---- ours

def draw(name, *shape, deviation=1.0):
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    return (rng.standard_normal(shape) * deviation).astype(np.float32)


def of_examples(op, attributes, inputs, lengths):
    """Each example alone, with its own steps."""
    outputs = {}
    for example, length in enumerate(lengths):
        alone = {"X": inputs["X"][:length, [example]]}
        alone |= {name: inputs[name][:, [example]] for name in ("initial_h", "initial_c") if name in inputs}
        alone = {name: inputs[name] for name in ("W", "R", "B", "P") if name in inputs} | alone
        results = evaluate(op, attributes, alone)
        padding = np.zeros((STEPS - length, *results["Y"].shape[1:]))
        results["Y"] = np.concatenate([results["Y"], padding])
        for name, array in results.items():
            outputs.setdefault(name, []).append(array)
    return {name: np.concatenate(arrays, 2 if name == "Y" else 1) for name, arrays in outputs.items()}


def made(op):
    """Of GRUs with `linear_before_reset=1` and LSTMs without peepholes, and of the variants: with 0, and with them."""
    def one(name, direction="forward", layout=0, initial=False, lengths=None, deviation=0.5, variant=False):
        directions, width = 1 + (direction == "bidirectional"), GATES[op] * HIDDEN_SIZE
        inputs = {
            "X": draw(f"{op}/X", STEPS, BATCH, INPUT_SIZE, deviation=2 * deviation),
            "W": draw(f"{op}/W", directions, width, INPUT_SIZE, deviation=deviation),
            "R": draw(f"{op}/R", directions, width, HIDDEN_SIZE, deviation=deviation),
            "B": draw(f"{op}/B", directions, 2 * width, deviation=deviation),
        }
        if initial:
            states = [name for name in INPUTS[op] if name.startswith("initial")]
            inputs |= {state: draw(f"{op}/{state}", directions, BATCH, HIDDEN_SIZE) for state in states}
        if layout:
            swapped = [name for name in inputs if name == "X" or name.startswith("initial")]
            inputs |= {name: np.swapaxes(inputs[name], 0, 1) for name in swapped}
        attributes = {"hidden_size": HIDDEN_SIZE, "direction": direction, "layout": layout}
        if op == "GRU":
            attributes["linear_before_reset"] = int(not variant)
        elif variant:
            inputs["P"] = draw("LSTM/P", directions, 3 * HIDDEN_SIZE)
        wide = {name: array.astype(np.float64) for name, array in inputs.items()}
        if lengths is None:
            outputs = evaluate(op, attributes, wide)
        else:
            inputs["sequence_lens"] = np.array(lengths, np.int32)
            outputs = of_examples(op, attributes, wide, lengths)
        return case(name, attributes, inputs, outputs, False)

    return [
        one("forward"),
        one("reverse", "reverse"),
        one("bidirectional", "bidirectional"),
        one("large_weights", "bidirectional", initial=True, deviation=1.0),
        one("initial_states", initial=True),
        one("batchwise", "bidirectional", layout=1, initial=True),
        one("lengths", lengths=[4, 7, 1]),
        one("lengths_bidirectional", "bidirectional", initial=True, lengths=[4, 7, 1]),
        one("variant", initial=True, variant=True),
        one("variant_lengths", "bidirectional", initial=True, lengths=[4, 7, 1], variant=True),
    ]


def write(op):
    cases = of_suite(op) + made(op)
    generator = f"tests/reference/generate_onnx.py, onnx {onnx.__version__}"
    lines = ",\n".join(json.dumps(entry, separators=(",", ":"), allow_nan=False) for entry in cases)
    path = HERE / f"onnx_{op.lower()}.json"
    path.write_text(f'{{"generator":{json.dumps(generator)},"cases":[\n{lines}\n]}}\n')
    print(f"{path.name:28} {path.stat().st_size:7}", ", ".join(c["name"] for c in cases))


if __name__ == "__main__":
    for op in ("GRU", "LSTM"):
        write(op)
