"""More of `packages`: attentions whose packages need other frameworks, one at a time (see README.md).

    pip install torch==2.15.0 numpy safetensors; pip install --no-deps tacotron2-model==0.2.4 pytorch-nlp==0.5.0
    python tests/reference/generate_attentions.py torch
    pip install einops einx loguru; pip install --no-deps x-transformers==2.31.10 torch-einops-utils
    python tests/reference/generate_attentions.py recipes
    pip install tensorflow==2.15.1 safetensors; pip install --no-deps keras-self-attention==0.51.0 attention==5.0.0
    python tests/reference/generate_attentions.py tensorflow
    pip install mxnet==1.9.1 numpy==1.23.5 safetensors; pip install --no-deps gluonnlp==0.10.0
    python tests/reference/generate_attentions.py mxnet
    pip install onnxruntime==1.32.0 onnx==1.23.2 safetensors
    python tests/reference/generate_attentions.py onnxruntime

As in generate_packages.py, whose helpers these are. A package without a mask runs each example by itself, without
padding.
"""

import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from generate_packages import A, BATCH, C, D, HALF, HERE, KEYS, LENS, O, Q, STEPS, Stubs, alone, drawn, encoded, write

F32 = np.float32


def save(name, tensors):
    from safetensors.numpy import save_file
    tensors = {own: np.ascontiguousarray(array, F32) for own, array in tensors.items()}
    save_file(tensors | {"encoder.other.weight": np.ones((2, 2), F32)}, HERE / "packages" / f"{name}.safetensors")


def inputs(name, query_size=Q, steps=STEPS):
    return {"keys": drawn(f"{name}/keys", BATCH, KEYS, D),
            "queries": drawn(f"{name}/queries", BATCH, steps, query_size)}


def padded(weights):
    """The weights of examples of different lengths, `[steps, len]` each, with zeros for padding."""
    return np.stack([np.pad(of, ((0, 0), (0, KEYS - of.shape[1]))) for of in weights])


def torch_cases():
    import torch
    sys.meta_path.append(Stubs())  # for what Tacotron 2 reads sounds with
    tacotron2 = alone("tacotron2_model.model")
    sys.meta_path.pop()
    torchnlp = alone("torchnlp.nn.attention")

    def drawn_module(name, module, prefix):
        module = module.double().eval()
        own = {n: torch.tensor(drawn(f"{name}/{n}", *p.shape, std=0.5)) for n, p in module.state_dict().items()}
        module.load_state_dict(own)
        tensors = {prefix + n: p.numpy() for n, p in own.items()}
        if name != "nvidia_tacotron2":
            save(name, tensors)
            return module
        state = {n: torch.tensor(array, dtype=torch.float32) for n, array in tensors.items()}
        # As NVIDIA's train.py saves it.
        torch.save({"iteration": 1, "state_dict": state, "learning_rate": 1e-3}, HERE / "packages" / f"{name}.pt")
        return module

    name, prefix = "nvidia_tacotron2", "decoder.attention_layer."
    module = drawn_module(name, tacotron2.Attention(Q, D, A, C, 2 * HALF + 1), prefix)
    given = inputs(name)
    keys, queries = (torch.tensor(given[of]) for of in ("keys", "queries"))
    padding = torch.arange(KEYS)[None] >= torch.tensor(LENS)[:, None]
    projected, weights, total = module.memory_layer(keys), torch.zeros(BATCH, KEYS), torch.zeros(BATCH, KEYS)
    contexts, all_weights = [], []
    for step in range(STEPS):  # as model.Decoder.decode
        both = torch.cat((weights[:, None], total[:, None]), dim=1)
        context, weights = module(queries[:, step], keys, projected, both, padding)
        total = total + weights
        contexts.append(context)
        all_weights.append(weights)
    found = {"weights": torch.stack(all_weights, 1), "context": torch.stack(contexts, 1)}
    yield encoded(name, "state_dict." + prefix, given, {n: x.detach().numpy() for n, x in found.items()}, {})

    name, prefix = "pytorch_nlp", "decoder.attention."
    module = drawn_module(name, torchnlp.Attention(D), prefix)
    given = inputs(name, D)
    keys, queries = (torch.tensor(given[of]) for of in ("keys", "queries"))
    each = [module(queries[b:b + 1], keys[b:b + 1, :length]) for b, length in enumerate(LENS)]
    found = {"weights": padded([weights[0].detach().numpy() for _, weights in each]),
             "context": np.concatenate([context.detach().numpy() for context, _ in each])}
    yield encoded(name, prefix, given, found, {})


def recipe_cases():
    """Grouped heads of x-transformers, a recipe in docs/recipes.md."""
    import torch
    from x_transformers.x_transformers import Attention

    name = "recipe_x_transformers"
    module = Attention(dim=D, dim_head=A, heads=6, kv_heads=2).eval()
    own = {n: torch.tensor(drawn(f"{name}/{n}", *p.shape, std=0.5)) for n, p in module.state_dict().items()}
    module.load_state_dict(own)
    save(name, {f"layers.0.1.{n}": p.numpy() for n, p in own.items()})
    keys = drawn(f"{name}/keys", BATCH, KEYS, D)
    output = module.double()(torch.tensor(keys)).detach().numpy()
    yield encoded(name, "layers.0.1.", {"keys": keys}, {"output": output}, {}) | {"mask": {"kind": "none"}}


def tensorflow_cases():
    import tensorflow as tf
    attention = alone("attention.attention")
    from keras_self_attention import SeqSelfAttention

    def assign(name, layer):
        for variable in layer.weights:
            variable.assign(drawn(f"{name}/{variable.name}", *variable.shape, std=0.5))
        save(name, {v.name.removesuffix(":0"): v.numpy() for v in layer.weights})

    for score in ("bahdanau", "luong"):
        name = f"keras_attention_{score}"
        layer = attention.Attention(units=O, score=score, name="attention")
        keys = inputs(name)["keys"]
        queries = np.stack([keys[b, length - 1:length] for b, length in enumerate(LENS)])
        layer(keys[:1].astype(F32))
        assign(name, layer)
        contexts, weights = [], []
        for b, length in enumerate(LENS):
            states = tf.constant(keys[b:b + 1, :length], tf.float32)
            if score == "bahdanau":  # whose layer repeats the query as often as there were states at first
                layer.bahdanau_repeat.n = length
            contexts.append(layer(states).numpy())
            last = states[:, -1]
            if score == "luong":
                energies = tf.einsum("bd,btd->bt", last, layer.luong_w(states))
            else:
                hidden = tf.tanh(layer.bahdanau_w1(last)[:, None] + layer.bahdanau_w2(states))
                energies = layer.bahdanau_v(hidden)[..., 0]
            weights.append(tf.nn.softmax(energies).numpy())
        found = {"weights": padded(weights), "context": np.stack(contexts)}
        yield encoded(name, "attention/", {"keys": keys, "queries": queries}, found, {})

    for kind in ("additive", "multiplicative"):
        name = f"keras_self_attention_{kind}"
        layer = SeqSelfAttention(units=A, attention_type=kind, return_attention=True, name="seq_self_attention")
        keys = inputs(name)["keys"]
        layer(keys.astype(F32))
        assign(name, layer)
        context, weights = layer(keys.astype(F32))
        case = encoded(name, "seq_self_attention/seq_self_attention_", {"keys": keys, "queries": keys},
                       {"weights": weights.numpy(), "context": context.numpy()}, {})
        yield case | {"mask": {"kind": "none"}}


def mxnet_cases():
    for name in ("bool", "float", "int", "object"):  # which numpy had
        np.__dict__.get(name) or setattr(np, name, __builtins__.__dict__[name])
    import mxnet as mx
    alone("gluonnlp.model.block")
    cells = alone("gluonnlp.model.attention_cell")
    for name, normalized in (("gluonnlp_mlp", False), ("gluonnlp_normalized_mlp", True)):
        cell = cells.MLPAttentionCell(A, normalized=normalized)
        cell.initialize()
        given = inputs(name)
        keys, queries = (mx.nd.array(given[of]) for of in ("keys", "queries"))
        keep = np.broadcast_to((np.arange(KEYS)[None] < np.array(LENS)[:, None])[:, None], (BATCH, STEPS, KEYS))
        call = lambda: cell(queries, keys, keys, mx.nd.array(keep.astype(F32)))
        call()  # which makes the parameters
        for own, parameter in cell._collect_params_with_prefix().items():
            parameter.set_data(mx.nd.array(drawn(f"{name}/{own}", *parameter.shape, std=0.5)))
        context, weights = call()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "cell.params")
            cell.save_parameters(path)
            save(name, {"decoder." + own: array.asnumpy() for own, array in mx.nd.load(path).items()})
        yield encoded(name, "decoder.", given, {"weights": weights.asnumpy(), "context": context.asnumpy()}, {})


def onnxruntime_cases():
    """A cell whose state is the sum of its contexts so far, so that it shows them: its gates are 1, it has no tanh."""
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    for name, with_layer in (("onnx_runtime_attn_lstm", False), ("onnx_runtime_attn_lstm_with_aw", True)):
        hidden = O if with_layer else D
        own = {"QW": drawn(f"{name}/QW", 1, hidden, A, std=0.5), "MW": drawn(f"{name}/MW", 1, D, A, std=0.5),
               "V": drawn(f"{name}/V", 1, A, std=0.5)}
        if with_layer:
            own["AW"] = drawn(f"{name}/AW", 1, hidden + D, O, std=0.3)
        # The new cell state is the input and the attention before, the weights of the gates are 0.
        weight = np.zeros((1, 4 * hidden, hidden + hidden))
        weight[0, 3 * hidden:] = np.concatenate([np.eye(hidden), np.eye(hidden)], 1)
        tensors = {"W": weight, "R": np.zeros((1, 4 * hidden, hidden))} | own
        keys = drawn(f"{name}/keys", BATCH, KEYS, D)
        x = drawn(f"{name}/x", STEPS + 1, BATCH, hidden)
        names = ["X", "W", "R", "", "", "", "", "", "QW", "MW", "V", "M", "lens", "AW" if with_layer else ""]
        node = helper.make_node("AttnLSTM", names, ["Y"], domain="com.microsoft", hidden_size=hidden,
                                activations=["Affine", "Affine", "Affine"], activation_alpha=[0.0, 1.0, 1.0],
                                activation_beta=[1.0, 0.0, 0.0])
        initializers = [numpy_helper.from_array(array.astype(F32), of) for of, array in tensors.items()]
        initializers.append(numpy_helper.from_array(np.array(LENS, np.int32), "lens"))
        graph = helper.make_graph([node], "attention", [
            helper.make_tensor_value_info("X", TensorProto.FLOAT, x.shape),
            helper.make_tensor_value_info("M", TensorProto.FLOAT, keys.shape)],
            [helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)], initializers)
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        y, = session.run(["Y"], {"X": x.astype(F32), "M": keys.astype(F32)})
        states = y[:, 0].astype(np.float64)
        contexts = np.diff(states, axis=0) - x[1:]
        save(name, {f"attention.{of}": numpy_helper.to_array(tensor) for of, tensor in
                    ((tensor.name, tensor) for tensor in model.graph.initializer) if of in own})
        given = {"keys": keys, "queries": states[:-1].transpose(1, 0, 2)}
        yield encoded(name, "attention.", given, {"context": contexts.transpose(1, 0, 2)}, {})


if __name__ == "__main__":
    framework, = sys.argv[1:]
    if framework in ("torch", "recipes"):
        import torch
        torch.set_num_threads(1)
        torch.set_default_dtype(torch.float64)
    cases = {"torch": torch_cases, "recipes": recipe_cases, "tensorflow": tensorflow_cases, "mxnet": mxnet_cases,
             "onnxruntime": onnxruntime_cases}[framework]
    Path(HERE / "packages").mkdir(exist_ok=True)
    write(f"attentions_{framework}.json", framework, list(cases()))
