"""Writes files of other frameworks, and what their layers compute, for the Rust tests (see README.md).

    pip install torch==2.15.0 numpy            python tests/reference/generate_frameworks.py pytorch
    pip install mxnet==1.9.1 "numpy<1.24"      python tests/reference/generate_frameworks.py mxnet
    pip install tensorflow-cpu==2.15.0         python tests/reference/generate_frameworks.py tensorflow
    pip install keras==3.15.1 jax==0.10.2 flax==0.12.8 paddlepaddle==3.3.1 pymarian==1.12.42 mlx==0.32.4 "mlx[cpu]"
                                               python tests/reference/generate_frameworks.py keras jax paddle marian mlx

each in an environment of its own. `Net` is D2L's additive attention, its multi-head attention of two heads and the GRU of
its encoder, of two layers; the parameters of a framework are drawn by their names. Queries are two to an example, with 5,
3 and 1 of 5 keys; the recurrent layers read 7 steps. Files and results are in `frameworks`.
"""

import json
import os
import sys
from pathlib import Path

os.environ.update(KERAS_BACKEND="jax", JAX_PLATFORMS="cpu", CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="3")

import numpy as np

OUT = Path(__file__).parent / "frameworks"
LENS = [5, 3, 1]
# Query, key, value; hidden units of the additive attention and of the heads; input and state of the recurrent layers.
Q, D, V, A, HIDDEN, HEADS, I, H = 3, 5, 4, 7, 6, 2, 5, 4


def drawn(name, shape, std=0.5):
    """Elements on the grid of 1/64, seeded by `name`."""
    seed = [ord(letter) for letter in name]
    return (np.round(np.random.default_rng(seed).normal(0.0, std, shape) * 64).clip(-256, 256) / 64).astype(np.float32)


QUERIES, KEYS, VALUES = drawn("queries", (3, 2, Q)), drawn("keys", (3, 5, D)), drawn("values", (3, 5, V))
STEPS = drawn("steps", (3, 7, I))
MASK = np.arange(5)[None] < np.array(LENS)[:, None]


def to_json(array):
    array = np.asarray(array)
    return {"shape": list(array.shape), "data": [float(f"{x:.10g}") for x in array.astype(np.float64).flatten()]}


def case(name, inputs, **outputs):
    groups = {"inputs": inputs, "outputs": outputs, "gradients": {}}
    mask = {"kind": "valid_lens", "shape": [len(LENS)], "data": LENS}
    groups = {group: {n: to_json(x) for n, x in arrays.items()} for group, arrays in groups.items()}
    return {"name": name, "mask": mask, **groups}


def write(framework, version, cases):
    lines = ",\n".join(json.dumps(case, separators=(",", ":"), allow_nan=False) for case in cases)
    generator = f"tests/reference/generate_frameworks.py {framework}, {version}"
    (OUT / f"{framework}.json").write_text(f'{{"generator":{json.dumps(generator)},"cases":[\n{lines}\n]}}\n')


def net_cases(additive, heads, gru):
    inputs = {"queries": QUERIES, "keys": KEYS, "values": VALUES}
    return [
        case("additive", inputs, context=additive[0], weights=additive[1]),
        case("multi_head", inputs, context=heads[0], weights=heads[1]),
        case("gru", {"steps": STEPS}, outputs=gru),
    ]


def split(x):
    """[batch, rows, hidden units] as [batch, heads, rows, units of a head]."""
    return x.reshape((x.shape[0], x.shape[1], HEADS, -1))


def pytorch():
    import torch
    from torch import nn

    class AdditiveAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.W_k = nn.Linear(D, A, bias=False)
            self.W_q = nn.Linear(Q, A, bias=False)
            self.w_v = nn.Linear(A, 1, bias=False)

        def forward(self, queries, keys, values, mask):
            features = torch.tanh(self.W_q(queries).unsqueeze(2) + self.W_k(keys).unsqueeze(1))
            scores = self.w_v(features).squeeze(-1).masked_fill(~mask.unsqueeze(1), -1e6)
            weights = scores.softmax(-1)
            return weights @ values, weights

    class MultiHeadAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.W_q = nn.Linear(Q, HIDDEN)
            self.W_k = nn.Linear(D, HIDDEN)
            self.W_v = nn.Linear(V, HIDDEN)
            self.W_o = nn.Linear(HIDDEN, HIDDEN)

        def heads(self, x):
            return x.reshape(x.shape[0], x.shape[1], 2, -1).transpose(1, 2)

        def forward(self, queries, keys, values, mask):
            q, k, v = self.heads(self.W_q(queries)), self.heads(self.W_k(keys)), self.heads(self.W_v(values))
            scores = (q @ k.transpose(2, 3) / 3 ** 0.5).masked_fill(~mask[:, None, None], -1e6)
            weights = scores.softmax(-1)
            return self.W_o((weights @ v).transpose(1, 2).reshape(q.shape[0], q.shape[2], -1)), weights

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.heads, self.rnn = AdditiveAttention(), MultiHeadAttention(), nn.GRU(I, H, 2)

        def forward(self, queries, keys, values, mask, steps):
            return self.attention(queries, keys, values, mask), self.heads(queries, keys, values, mask), self.rnn(steps)[0]

    net = Net().eval()
    net.load_state_dict({n: torch.tensor(drawn(n, tuple(x.shape))) for n, x in net.state_dict().items()})
    inputs = [torch.tensor(x) for x in (QUERIES, KEYS, VALUES, MASK)] + [torch.tensor(STEPS.swapaxes(0, 1).copy())]
    with torch.no_grad():
        additive, heads, gru = net(*inputs)
    torch.save(net.state_dict(), OUT / "pytorch.pt")
    torch.jit.save(torch.jit.script(net), str(OUT / "torchscript.pt"))
    torch.export.save(torch.export.export(net, tuple(inputs)), OUT / "exported.pt2")
    write("pytorch", f"torch {torch.__version__}", net_cases(additive, heads, gru.transpose(0, 1)))


def mxnet():
    import mxnet as mx
    from mxnet import np as mnp, npx
    from mxnet.gluon import nn, rnn

    npx.set_np()

    class AdditiveAttention(nn.Block):
        def __init__(self):
            super().__init__()
            self.W_k = nn.Dense(A, use_bias=False, flatten=False)
            self.W_q = nn.Dense(A, use_bias=False, flatten=False)
            self.w_v = nn.Dense(1, use_bias=False, flatten=False)

        def forward(self, queries, keys, values, mask):
            features = mnp.tanh(mnp.expand_dims(self.W_q(queries), 2) + mnp.expand_dims(self.W_k(keys), 1))
            scores = mnp.where(mnp.expand_dims(mask, 1), mnp.squeeze(self.w_v(features), -1), -1e6)
            weights = npx.softmax(scores, axis=-1)
            return npx.batch_dot(weights, values), weights

    class MultiHeadAttention(nn.Block):
        def __init__(self):
            super().__init__()
            self.W_q = nn.Dense(HIDDEN, flatten=False)
            self.W_k = nn.Dense(HIDDEN, flatten=False)
            self.W_v = nn.Dense(HIDDEN, flatten=False)
            self.W_o = nn.Dense(HIDDEN, flatten=False)

        def forward(self, queries, keys, values, mask):
            q, k, v = [split(f(x)).transpose(0, 2, 1, 3) for f, x in
                       [(self.W_q, queries), (self.W_k, keys), (self.W_v, values)]]
            scores = mnp.matmul(q, k.swapaxes(2, 3)) / 3 ** 0.5
            weights = npx.softmax(mnp.where(mask.reshape(3, 1, 1, 5), scores, -1e6), axis=-1)
            context = mnp.matmul(weights, v).transpose(0, 2, 1, 3).reshape(3, 2, HIDDEN)
            return self.W_o(context), weights

    class Net(nn.Block):
        def __init__(self):
            super().__init__()
            self.attention, self.heads, self.rnn = AdditiveAttention(), MultiHeadAttention(), rnn.GRU(H, 2)

        def forward(self, queries, keys, values, mask, steps):
            return self.attention(queries, keys, values, mask), self.heads(queries, keys, values, mask), self.rnn(steps)

    net = Net()
    net.initialize()
    inputs = [mnp.array(x) for x in (QUERIES, KEYS, VALUES, MASK)] + [mnp.array(STEPS.swapaxes(0, 1))]
    net(*inputs)
    for name, parameter in net.collect_params().items():
        parameter.set_data(mnp.array(drawn(name, parameter.shape)))
    additive, heads, gru = net(*inputs)
    net.save_parameters(str(OUT / "mxnet.params"))
    numpy = [[x.asnumpy() for x in pair] for pair in (additive, heads)]
    write("mxnet", f"mxnet {mx.__version__}", net_cases(*numpy, gru.asnumpy().swapaxes(0, 1)))
    mxnet_small()


def mxnet_small():
    """Files that are told from others by more than their shapes: heads whose weights are square, a GRU without one of
    its two biases, an LSTM, and the encoder of D2L 1.0.3, whose GRU is a block in a block."""
    import mxnet as mx
    from mxnet import np as mnp, npx
    from mxnet.gluon import nn, rnn

    npx.set_np()

    class Heads(nn.Block):
        def __init__(self):
            super().__init__()
            for name in "qkvo":
                setattr(self, f"W_{name}", nn.Dense(HIDDEN, in_units=HIDDEN, flatten=False, use_bias=False))

    class Wrapper(nn.Block):
        def __init__(self):
            super().__init__()
            self.rnn = rnn.GRU(H, input_size=I)

    class Net(nn.Block):
        def __init__(self):
            super().__init__()
            self.heads, self.encoder, self.lstm = Heads(), nn.Block(), rnn.LSTM(H, input_size=I)
            self.encoder.rnn = Wrapper()

    net = Net()
    net.initialize()
    for name, parameter in net.collect_params().items():
        parameter.set_data(mnp.array(drawn(name, parameter.shape)))
    net.save_parameters(str(OUT / "small.params"))
    arrays = npx.load(str(OUT / "small.params"))
    arrays.pop("encoder.rnn.rnn._unfused.0.i2h_bias")
    npx.save(str(OUT / "without_bias.params"), arrays)


def tensorflow():
    """D2L's layers in TensorFlow's Keras, and Keras' own."""
    import keras
    import tensorflow as tf
    from tensorflow.keras import layers

    class AdditiveAttention(layers.Layer):
        def __init__(self):
            super().__init__()
            self.W_k = layers.Dense(A, use_bias=False)
            self.W_q = layers.Dense(A, use_bias=False)
            self.w_v = layers.Dense(1, use_bias=False)

        def call(self, queries, keys, values, mask):
            features = tf.nn.tanh(self.W_q(queries)[:, :, None] + self.W_k(keys)[:, None])
            scores = tf.where(mask[:, None], tf.squeeze(self.w_v(features), -1), -1e6)
            weights = tf.nn.softmax(scores)
            return weights @ values, weights

    class MultiHeadAttention(layers.Layer):
        def __init__(self):
            super().__init__()
            self.W_q, self.W_k = layers.Dense(HIDDEN), layers.Dense(HIDDEN)
            self.W_v, self.W_o = layers.Dense(HIDDEN), layers.Dense(HIDDEN)

        def call(self, queries, keys, values, mask):
            def heads(x):
                return tf.transpose(tf.reshape(x, (3, -1, HEADS, HIDDEN // HEADS)), (0, 2, 1, 3))

            q, k, v = heads(self.W_q(queries)), heads(self.W_k(keys)), heads(self.W_v(values))
            scores = tf.matmul(q, k, transpose_b=True) / 3 ** 0.5
            weights = tf.nn.softmax(tf.where(mask[:, None, None], scores, -1e6))
            context = tf.reshape(tf.transpose(weights @ v, (0, 2, 1, 3)), (3, 2, HIDDEN))
            return self.W_o(context), weights

    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.attention, self.heads = AdditiveAttention(), MultiHeadAttention()
            self.rnn = layers.RNN([layers.GRUCell(H) for _ in range(2)], return_sequences=True)

        def call(self, queries, keys, values, mask, steps):
            return self.attention(queries, keys, values, mask), self.heads(queries, keys, values, mask), self.rnn(steps)

    net = Net()
    inputs = [tf.constant(x) for x in (QUERIES, KEYS, VALUES, MASK, STEPS)]
    net(*inputs)
    for index, weight in enumerate(net.weights):
        weight.assign(drawn(f"{index}", tuple(weight.shape)))
    additive, heads, gru = net(*inputs)
    net.save_weights(OUT / "tensorflow.weights.h5")
    write("tensorflow", f"tensorflow {tf.__version__}", net_cases(additive, heads, gru))
    keras.backend.clear_session()  # of the names' counts
    keras_layers("keras2", keras, ["h5", "weights.h5"])
    keras_nested()


def keras_nested():
    """A GRU in a model in a model, by `save_weights` of Keras 2; and two GRUs, of which the first that was made is the
    second in the order of the model."""
    import keras
    from keras import layers

    keras.backend.clear_session()
    steps = keras.Input((7, I))
    inner = keras.Model(steps, layers.GRU(H, name="reader")(steps), name="inner")
    outer = keras.Model(steps, inner(steps))
    for index, weight in enumerate(outer.weights):
        weight.assign(drawn(f"keras {index}", tuple(weight.shape)))
    outer.save_weights(OUT / "keras2_nested.h5")
    keras.backend.clear_session()
    one, other = keras.Input((7, I)), keras.Input((7, I))
    made = layers.GRU(2, name="gru"), layers.GRU(H, name="gru_1")
    outputs = made[1](other), made[0](one)
    keras.Model([other, one], outputs).save_weights(OUT / "keras2_counts.weights.h5")


def keras():
    import keras

    keras_layers("keras", keras, ["h5", "keras"])
    half = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, dtype="bfloat16")])
    half.weights[0].assign(drawn("half", (3, 2)))
    half.save_weights(OUT / "keras_half.weights.h5")


def keras_layers(framework, keras, files):
    """One model of Keras' own layers; its additive attention has queries as long as keys."""
    from keras import layers

    steps, queries = keras.Input((7, I)), keras.Input((2, Q))
    keys, values, mask = keras.Input((5, D)), keras.Input((5, V)), keras.Input((5,), dtype="bool")
    long = keras.Input((2, D))
    additive = layers.AdditiveAttention(dropout=0.1, name="score")
    heads = layers.MultiHeadAttention(HEADS, 3, value_dim=4, output_shape=7)
    every = [
        *additive([long, values @ np.ones((V, 1), np.float32) * 0 + keys, keys], mask=[None, mask],
                  return_attention_scores=True),
        *heads(queries, values, keys, attention_mask=mask[:, None], return_attention_scores=True),
        layers.GRU(H, return_sequences=True)(steps),
        layers.LSTM(H, return_sequences=True)(steps),
    ]
    model = keras.Model([steps, queries, keys, values, mask, long], every)
    for index, weight in enumerate(model.weights):
        weight.assign(drawn(f"keras {index}", tuple(weight.shape)))
    wide = drawn("wide", (3, 2, D))
    results = [np.asarray(x) for x in model([STEPS, QUERIES, KEYS, VALUES, MASK, wide])]
    for file in files:
        path = OUT / f"{framework}.{file}"
        model.save_weights(path) if "weights" in file else model.save(path)
    inputs = {"queries": QUERIES, "keys": KEYS, "values": VALUES}
    write(framework, f"keras {keras.__version__}", [
        case("additive", {"queries": wide, "keys": KEYS, "values": KEYS}, context=results[0], weights=results[1]),
        case("multi_head", inputs, context=results[2], weights=results[3]),
        case("gru", {"steps": STEPS}, outputs=results[4]),
        case("lstm", {"steps": STEPS}, outputs=results[5]),
    ])


def jax():
    import flax
    import flax.linen as nn
    import jax
    import jax.numpy as jnp

    class AdditiveAttention(nn.Module):
        def setup(self):
            self.W_k = nn.Dense(A, use_bias=False)
            self.W_q = nn.Dense(A, use_bias=False)
            self.w_v = nn.Dense(1, use_bias=False)

        def __call__(self, queries, keys, values, mask):
            features = nn.tanh(self.W_q(queries)[:, :, None] + self.W_k(keys)[:, None])
            weights = nn.softmax(jnp.where(mask[:, None], self.w_v(features)[..., 0], -1e6))
            return weights @ values, weights

    class MultiHeadAttention(nn.Module):
        def setup(self):
            self.W_q, self.W_k = nn.Dense(HIDDEN), nn.Dense(HIDDEN)
            self.W_v, self.W_o = nn.Dense(HIDDEN), nn.Dense(HIDDEN)

        def __call__(self, queries, keys, values, mask):
            q, k, v = [split(x).swapaxes(1, 2) for x in (self.W_q(queries), self.W_k(keys), self.W_v(values))]
            weights = nn.softmax(jnp.where(mask[:, None, None], q @ k.swapaxes(2, 3) / 3 ** 0.5, -1e6))
            return self.W_o((weights @ v).swapaxes(1, 2).reshape(3, 2, HIDDEN)), weights

    class GRU(nn.Module):
        @nn.compact
        def __call__(self, steps):
            cell = nn.scan(nn.GRUCell, variable_broadcast="params", in_axes=0, out_axes=0,
                           split_rngs={"params": False})
            for _ in range(2):
                _, steps = cell(features=H)(jnp.zeros((3, H)), steps)
            return steps

    class Net(nn.Module):
        def setup(self):
            self.attention, self.heads, self.rnn = AdditiveAttention(), MultiHeadAttention(), GRU()
            self.flax = nn.MultiHeadDotProductAttention(HEADS, qkv_features=HIDDEN, out_features=7)

        def __call__(self, queries, keys, values, mask, steps):
            every = self.attention(queries, keys, values, mask), self.heads(queries, keys, values, mask), self.rnn(steps)
            return every, self.flax(queries, keys, values, mask=mask[:, None, None], sow_weights=True)

    with jax.default_matmul_precision("float32"):
        inputs = (QUERIES, KEYS, VALUES, MASK, STEPS.swapaxes(0, 1))
        shapes = {"params": Net().init(jax.random.PRNGKey(0), *inputs)["params"]}
        variables = jax.tree_util.tree_map_with_path(
            lambda path, x: jnp.array(drawn(jax.tree_util.keystr(path), x.shape)), shapes)
        ((additive, heads, gru), context), sown = Net().apply(variables, *inputs, mutable=["intermediates"])
    (OUT / "jax.msgpack").write_bytes(flax.serialization.to_bytes(variables))
    cases = net_cases(additive, heads, gru.swapaxes(0, 1))
    inputs = {"queries": QUERIES, "keys": KEYS, "values": VALUES}
    weights = sown["intermediates"]["flax"]["attention_weights"][0]
    cases.append(case("flax_multi_head", inputs, context=context, weights=weights))
    write("jax", f"flax {flax.__version__}, jax {jax.__version__}", cases)


def paddle():
    import paddle
    from paddle import nn
    from paddle.nn import functional as F

    class AdditiveAttention(nn.Layer):
        def __init__(self):
            super().__init__()
            self.W_k = nn.Linear(D, A, bias_attr=False)
            self.W_q = nn.Linear(Q, A, bias_attr=False)
            self.w_v = nn.Linear(A, 1, bias_attr=False)

        def forward(self, queries, keys, values, mask):
            features = F.tanh(self.W_q(queries).unsqueeze(2) + self.W_k(keys).unsqueeze(1))
            scores = self.w_v(features).squeeze(-1)
            weights = F.softmax(paddle.where(mask.unsqueeze(1).expand_as(scores), scores, paddle.full_like(scores, -1e6)))
            return paddle.bmm(weights, values), weights

    class MultiHeadAttention(nn.Layer):
        def __init__(self):
            super().__init__()
            self.W_q, self.W_k = nn.Linear(Q, HIDDEN), nn.Linear(D, HIDDEN)
            self.W_v, self.W_o = nn.Linear(V, HIDDEN), nn.Linear(HIDDEN, HIDDEN)

        def forward(self, queries, keys, values, mask):
            q, k, v = [split(x).transpose((0, 2, 1, 3)) for x in (self.W_q(queries), self.W_k(keys), self.W_v(values))]
            scores = q @ k.transpose((0, 1, 3, 2)) / 3 ** 0.5
            mask = mask.reshape((3, 1, 1, 5)).expand_as(scores)
            weights = F.softmax(paddle.where(mask, scores, paddle.full_like(scores, -1e6)))
            return self.W_o((weights @ v).transpose((0, 2, 1, 3)).reshape((3, 2, HIDDEN))), weights

    class Net(nn.Layer):
        def __init__(self):
            super().__init__()
            self.attention, self.heads = AdditiveAttention(), MultiHeadAttention()
            self.rnn = nn.GRU(I, H, 2, time_major=True)

        def forward(self, queries, keys, values, mask, steps):
            return self.attention(queries, keys, values, mask), self.heads(queries, keys, values, mask), self.rnn(steps)[0]

    net = Net()
    net.eval()
    for name, parameter in net.named_parameters():
        parameter.set_value(paddle.to_tensor(drawn(name, tuple(parameter.shape))))
    inputs = [paddle.to_tensor(x) for x in (QUERIES, KEYS, VALUES, MASK, STEPS.swapaxes(0, 1).copy())]
    additive, heads, gru = net(*inputs)
    paddle.save(net.state_dict(), str(OUT / "paddle.pdparams"))
    # An object that is no state dict, whose tensors have other names; and half precision.
    half = {n: x.astype("bfloat16") for n, x in net.attention.state_dict().items()}
    paddle.save({"model": half, "epoch": 3}, str(OUT / "paddle_nested.pdparams"))
    numpy = [[x.numpy() for x in pair] for pair in (additive, heads)]
    write("paddle", f"paddlepaddle {paddle.__version__}", net_cases(*numpy, gru.numpy().swapaxes(0, 1)))
    paddle_small()


def paddle_small():
    """Heads whose weights are square."""
    import paddle
    from paddle import nn

    heads = nn.Layer()
    for name in "qkvo":
        setattr(heads, f"W_{name}", nn.Linear(HIDDEN, HIDDEN, bias_attr=False))
    for name, parameter in heads.named_parameters():
        parameter.set_value(paddle.to_tensor(drawn(name, tuple(parameter.shape))))
    paddle.save(heads.state_dict(), str(OUT / "small.pdparams"))


def marian():
    """A model of a few letters, which Marian trains. Its decoder is recomputed, and its alignments are Marian's."""
    import tempfile

    import pymarian
    import yaml
    from pymarian import Trainer, Translator

    folder = tempfile.mkdtemp()
    os.chdir(folder)
    lines = ["a b c d e", "b c d", "d e a b c a", "c a"]
    for file, text in [("source", "\n".join(lines * 30)), ("target", "\n".join(lines * 30).upper())]:
        Path(file).write_text(text + "\n")
    Trainer(model="model.npz", train_sets=["source", "target"], vocabs=["source.yml", "target.yml"], type="s2s", dim_emb=6,
            dim_rnn=4, cpu_threads=1, mini_batch=8, maxi_batch=1, after_epochs=30, learn_rate=0.02, workspace=64, seed=1,
            quiet=True, overwrite=True).train()
    model = dict(np.load("model.npz"))
    vocabs = [yaml.safe_load(Path(file).read_text()) for file in ("source.yml", "target.yml")]
    translator = Translator(models="model.npz", vocabs=["source.yml", "target.yml"], alignment="soft", beam_size=1,
                            cpu_threads=1, mini_batch=1, workspace=64, quiet=True)

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    def gru(prefix, x, state, final=False):
        w, u, b = [[model[f"{prefix}_{n}"], model[f"{prefix}_{n}x"]] for n in ("W", "U", "b")]
        (xw, xh), (sw, sh) = [x @ m for m in w], [state @ m for m in u]
        r, z = np.split(sigmoid(xw + sw + b[0]), 2, -1)
        hidden = np.tanh(xh + r * (sh + b[1]) if final else xh + r * sh + b[1])
        return (1 - z) * hidden + z * state

    keys, queries, weights = np.zeros((3, 5, 8)), np.zeros((3, 2, 4)), np.zeros((3, 2, 5))
    for example, source in enumerate(["a b c d", "b c", ""]):
        ids = [vocabs[0][word] for word in source.split()] + [vocabs[0]["</s>"]]
        # Marian leaves out an empty line.
        target, _, alignment = translator.translate(source).partition("|||")
        embedded = [model["encoder_Wemb"][i][None] for i in ids]
        both = []
        for prefix, order in [("encoder_bi", 1), ("encoder_bi_r", -1)]:
            state, states = np.zeros((1, 4)), []
            for x in embedded[::order]:
                state = gru(prefix, x, state)
                states.append(state)
            both.append(np.concatenate(states[::order]))
        own = np.concatenate(both, 1)
        keys[example, :len(ids)] = own
        state = np.tanh(own.mean(0, keepdims=True) @ model["decoder_ff_state_W"] + model["decoder_ff_state_b"])
        x = np.zeros((1, 6))
        for step in range(2):
            query = gru("decoder_cell1", x, state)
            features = np.tanh(query @ model["decoder_W_comb_att"] + own @ model["decoder_Wc_att"] + model["decoder_b_att"])
            scores = np.exp(features @ model["decoder_U_att"])[:, 0]
            weight = scores / scores.sum()
            queries[example, step], weights[example, step, :len(ids)] = query[0], weight
            rows = [[float(x) for x in row.split(",")] for row in alignment.split()]
            if step < len(rows):
                difference = np.abs(np.array(rows[step]) - weight).max()
                print(f"marian: {source!r}, step {step}: {difference:.1e} from Marian's alignment")
                assert difference < 2e-6, (rows[step], weight)
            state = gru("decoder_cell2", (weight @ own)[None], query, final=True)
            word = (target.split() + ["</s>"])[min(step, len(target.split()))]
            x = model["decoder_Wemb"][vocabs[1][word]][None]
    assert np.ptp(weights[0, 0, :5]) > 0.05, "weights that differ"
    (OUT / "marian.npz").write_bytes(Path("model.npz").read_bytes())
    inputs = {"queries": queries, "keys": keys, "values": keys}
    write("marian", f"pymarian {pymarian.__version__}", [
        case("additive", inputs, context=weights @ keys, weights=weights)])


def mlx():
    """Arrays of Apple's mlx, one of them bf16, and of NumPy in each of its forms."""
    import mlx.core as mx

    matrix = drawn("matrix", (2, 3))
    mx.savez(str(OUT / "mlx.npz"), half=mx.array(matrix, dtype=mx.bfloat16), single=mx.array(matrix))
    np.save(OUT / "fortran.npy", np.asfortranarray(matrix))
    np.savez_compressed(OUT / "compressed.npz", **{"a/weight": matrix, "column": np.asfortranarray(matrix),
                                                  "big": matrix.astype(">f4"), "words": np.array(["a"])})
    write("mlx", f"mlx {mx.__version__}, numpy {np.__version__}", [case("matrix", {"matrix": matrix})])


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for framework in sys.argv[1:]:
        globals()[framework]()
