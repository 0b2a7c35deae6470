"""Writes what other packages' attentions compute, and their parameters, for the Rust tests (see README.md).

    pip install torch==2.15.0 numpy safetensors packaging
    pip install --no-deps espnet==202511 speechbrain==1.1.2 OpenNMT-py==3.5.1 joeynmt==2.3.0 allennlp==2.10.1 \
        fairseq==0.12.2 coqui-tts==0.28.0 yoyodyne==0.5.27 texar-pytorch==0.1.4
    pip install keras==3.15.1
    python tests/reference/generate_packages.py

and, where tensorflow 2.15.1, tensorflow-addons 0.23.0 and safetensors are installed instead,

    python tests/reference/generate_packages.py tensorflow

Each class is the package's own; whatever it imports beside its own file and PyTorch is a stub. Three steps of a batch of
three with 5, 3 and 1 keys, in float64, from random parameters. The state dicts are in `packages`, each with the prefix of
a whole model and beside another tensor.
"""

import importlib
import importlib.abc
import importlib.machinery
import json
import os
import sys
import types
from importlib.machinery import PathFinder
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
BATCH, STEPS, KEYS = 3, 3, 5
LENS = [5, 3, 1]
# Decoder, encoder, hidden units; filters, half of a kernel; output.
Q, D, A, C, HALF, O = 3, 5, 7, 2, 1, 4


def drawn(name, *shape, std=1.0):
    """Elements on the grid of 1/64, as those of generate.py, seeded by `name`."""
    seed = [ord(letter) for letter in name]
    return np.round(np.random.default_rng(seed).normal(0.0, std, shape) * 64).clip(-256, 256) / 64


def to_json(array):
    array = np.asarray(array, dtype=np.float64)
    return {"shape": list(array.shape), "data": [float(f"{x:.10g}") for x in array.flatten()]}


def write(file, versions, cases):
    lines = ",\n".join(json.dumps(case, separators=(",", ":"), allow_nan=False) for case in cases)
    generator = f"tests/reference/generate_packages.py, {versions}"
    (HERE / file).write_text(f'{{"generator":{json.dumps(generator)},"cases":[\n{lines}\n]}}\n')
    print(f"{file:28} {(HERE / file).stat().st_size:7}", ", ".join(case["name"] for case in cases))


def encoded(name, prefix, inputs, outputs, gradients):
    groups = {"inputs": inputs, "outputs": outputs, "gradients": gradients}
    mask = {"kind": "valid_lens", "shape": [BATCH], "data": LENS}
    groups = {group: {n: to_json(x) for n, x in arrays.items()} for group, arrays in groups.items()}
    return {"name": name, "prefix": prefix, "mask": mask, **groups}


# ---- what stands in for the packages' own dependencies

class Anything(type):
    """A class that is whatever a module makes of it while it is imported."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {})

    def __call__(cls, *args, **kwargs):
        return args[0] if len(args) == 1 and callable(args[0]) else Anything("Anything", (), {})

    def __or__(cls, other):
        return cls

    __ror__ = __getitem__ = __or__

    def __gt__(cls, other):
        return True

    __ge__ = __gt__

    def __lt__(cls, other):
        return False


class Stub(types.ModuleType):
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything(name, (), {})


class Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "Cython":  # whose absence SciPy can tell
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Stub(spec.name)

    def exec_module(self, module):
        pass


def alone(module, *without):
    """The module without the `__init__` of the packages that it is in, and without other modules."""
    sys.modules.update((name, Stub(name)) for name in without)
    path = module.split(".")
    if path[0] not in sys.modules:
        sys.modules[path[0]] = package = Stub(path[0])
        package.__path__ = PathFinder.find_spec(path[0]).submodule_search_locations
    for end in range(2, len(path)):
        name, parent = ".".join(path[:end]), sys.modules[".".join(path[:end - 1])]
        if name not in sys.modules:
            sys.modules[name] = package = Stub(name)
            package.__path__ = [str(Path(parent.__path__[0], path[end - 1]))]
    return importlib.import_module(module)


# ---- PyTorch's packages

def additive(name, prefix, parameters, energies, sizes):
    """A case by a formula: `energies(keys, query)`, `[batch, keys]`."""
    from safetensors.numpy import save_file

    own = {n: drawn(f"{name}/{n}", *shape, std=0.5) for n, shape in parameters.items()}
    save_file({prefix + n: x.astype(np.float32) for n, x in own.items()}, HERE / "packages" / f"{name}.safetensors")
    keys, queries = drawn(f"{name}/keys", BATCH, KEYS, sizes[1]), drawn(f"{name}/queries", BATCH, STEPS, sizes[0])
    keep = np.arange(KEYS)[None] < np.array(LENS)[:, None]
    steps = [np.exp(energies(own, keys, queries[:, step])) * keep for step in range(STEPS)]
    weights = np.stack([step / step.sum(1, keepdims=True) for step in steps], 1)
    return encoded(name, prefix, {"keys": keys, "queries": queries}, {"weights": weights, "context": weights @ keys}, {})


def sockeye_case():
    """Sockeye 1.18.106 as it was read: it needs MXNet, which has no build for a Python of today."""
    shapes = {"e2h_weight": (A, D), "q2h_weight": (A, Q), "h2s_weight": (1, A)}

    def energies(own, keys, query):
        return np.tanh(keys @ own["e2h_weight"].T + (query @ own["q2h_weight"].T)[:, None]) @ own["h2s_weight"][0]

    return additive("sockeye", "att_", shapes, energies, (Q, D))


def keras_case():
    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    from safetensors.numpy import save_file

    keras.backend.set_floatx("float64")
    layer = keras.layers.AdditiveAttention()
    keys, queries = drawn("keras/keys", BATCH, KEYS, A), drawn("keras/queries", BATCH, STEPS, A)
    masks = [None, np.arange(KEYS)[None] < np.array(LENS)[:, None]]
    layer([queries, keys], mask=masks)
    layer.scale.assign(drawn("keras/scale", A, std=0.5))
    context, weights = layer([queries, keys], mask=masks, return_attention_scores=True)
    context, weights = (keras.ops.convert_to_numpy(x) for x in (context, weights))
    scale = keras.ops.convert_to_numpy(layer.scale).astype(np.float32)
    save_file({f"{layer.name}/scale": scale, "dense/kernel": np.ones((2, 2), np.float32)},
              HERE / "packages" / "keras_additive.safetensors")
    yield encoded("keras_additive", f"{layer.name}/", {"keys": keys, "queries": queries},
                  {"weights": weights, "context": context}, {})
    keys, queries = drawn("keras_heads/keys", BATCH, KEYS, D), drawn("keras_heads/queries", BATCH, STEPS, Q)
    layer = keras.layers.MultiHeadAttention(2, 3, value_dim=4, output_shape=O)
    layer.build(queries.shape, keys.shape, keys.shape)
    for weight in layer.weights:
        weight.assign(drawn(weight.path, *weight.shape, std=0.5))
    context, weights = layer(queries, keys, attention_mask=masks[1][:, None], return_attention_scores=True)
    context, weights = (keras.ops.convert_to_numpy(x) for x in (context, weights))
    weights_of_layer = {w.path: keras.ops.convert_to_numpy(w).astype(np.float32) for w in layer.weights}
    save_file(weights_of_layer, HERE / "packages" / "recipe_keras_heads.safetensors")
    yield encoded("recipe_keras_heads", f"{layer.name}/", {"keys": keys, "queries": queries},
                  {"weights": weights.mean(1), "context": context}, {})


def torch_cases():
    import torch
    from safetensors.torch import save_file

    np.float_ = np.float64  # texar 0.1.4 reads it
    espnet = importlib.import_module("espnet.nets.pytorch_backend.rnn.attentions")
    sys.meta_path.append(Stubs())
    speechbrain = alone("speechbrain.nnet.attention")
    coqui = alone("TTS.tts.layers.tacotron.attentions")
    onmt = alone("onmt.modules.global_attention")
    joeynmt = alone("joeynmt.attention")
    additive = alone("allennlp.modules.attention.additive_attention")
    bilinear = alone("allennlp.modules.attention.bilinear_attention")
    fairseq = alone("fairseq.models.lstm", "fairseq.dataclass", "fairseq.modules", "fairseq.distributed")
    alone("yoyodyne.defaults")
    yoyodyne = alone("yoyodyne.models.modules.attention")
    texar = alone("texar.torch.core.attention_mechanism")

    # Some cast masks to float32.
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double
    lens = torch.tensor(LENS)
    keep = torch.arange(KEYS)[None] < lens[:, None]

    def one(name, prefix, module, run, sizes=(Q, D), context_size=None, outputs=(), detached=False):
        module = module.double().eval()
        own = {n: p for n, p in module.state_dict().items()}
        module.load_state_dict({n: torch.tensor(drawn(f"{name}/{n}", *p.shape, std=0.5)) for n, p in own.items()})
        state = {prefix + n: p.to(torch.float32).contiguous() for n, p in module.state_dict().items()}
        state |= {"encoder.other.weight": torch.ones(2, 2, dtype=torch.float32)}
        if name in ("espnet_att_loc", "joeynmt_bahdanau"):
            torch.save(state, HERE / "packages" / f"{name}.pt")
        else:
            save_file(state, HERE / "packages" / f"{name}.safetensors")
        shapes = {"keys": (BATCH, KEYS, sizes[1]), "queries": (BATCH, STEPS, sizes[0])}
        shapes |= {n: (BATCH, STEPS, O) for n in outputs}
        inputs = {n: drawn(f"{name}/{n}", *shape) for n, shape in shapes.items()}
        leaves = {n: torch.tensor(x, requires_grad=True) for n, x in inputs.items()}
        steps = list(run(module, *leaves.values()))
        found = {"weights": torch.stack([w for _, w in steps], 1), "context": torch.stack([c for c, _ in steps], 1)}
        grad = drawn(f"{name}/grad", *found["context"].shape)
        loss = (found["context"] * torch.tensor(grad)).sum()
        gradients = {} if detached else dict(zip(leaves, torch.autograd.grad(loss, leaves.values())))
        found = {n: x.detach().numpy() for n, x in found.items()}
        return encoded(name, prefix, inputs | {"grad_context": grad}, found, {n: g.numpy() for n, g in gradients.items()})

    def of_espnet(factor, is_sum=False):
        def run(module, keys, queries, outputs=None):
            module.reset()
            state, total = None, 0.0
            for step in range(STEPS):
                more = () if outputs is None else (outputs[:, step],)
                context, state = module(keys, LENS, queries[:, step], state, *more, scaling=factor)
                weights = state[-1] if isinstance(state, list) else state
                yield context, weights
                if is_sum:  # espnet.nets.pytorch_backend.tacotron2.decoder, cumulate_att_w
                    total = total + weights
                    state = total
        return run

    def of_heads(module, keys, queries):
        module.reset()
        state = None
        for step in range(STEPS):
            context, state = module(keys, LENS, queries[:, step], state)
            yield context, torch.stack(state).mean(0)

    def of_states(last):
        """Those whose state has more than the weights, which are `last(state)`."""
        def run(module, keys, queries):
            module.reset()
            state = None
            for step in range(STEPS):
                context, state = module(keys, LENS, queries[:, step], state)
                yield context, last(state)
        return run

    def of_speechbrain(module, keys, queries):
        module.reset()
        for step in range(STEPS):
            yield module(keys, lens, queries[:, step])

    def key_value(module, keys, queries):
        module.reset()
        for step in range(STEPS):
            context, weights = module(keys, lens, queries[:, step])
            yield context.squeeze(1), weights.reshape(BATCH, KEYS)

    def of_coqui(module, keys, queries):
        module.init_states(keys)
        projected = module.preprocess_inputs(keys)
        for step in range(STEPS):
            context = module(queries[:, step], keys, projected, keep)
            yield context, module.attention_weights

    def of_onmt(module, keys, queries):
        for step in range(STEPS):
            context, weights = module(queries[:, step:step + 1], keys, lens)
            yield context.reshape(BATCH, -1), weights.reshape(BATCH, KEYS)

    def of_coverage(module, keys, queries):
        bank, coverage = keys.clone(), None
        for step in range(STEPS):
            context, weights = module(queries[:, step:step + 1], bank, lens, coverage)
            weights = weights.reshape(BATCH, KEYS)
            coverage = weights if coverage is None else coverage + weights
            yield context.reshape(BATCH, -1), weights

    def of_joeynmt(module, keys, queries):
        module.compute_proj_keys(keys)
        for step in range(STEPS):
            query = queries[:, step:step + 1]
            if hasattr(module, "compute_proj_query"):
                module.compute_proj_query(query)
            context, weights = module(query, keep[:, None], keys)
            yield context.squeeze(1), weights.squeeze(1)

    def weights_alone(module, keys, queries):
        for step in range(STEPS):
            weights = module(queries[:, step], keys, keep)
            yield (weights[:, None] @ keys).squeeze(1), weights

    def of_fairseq(module, keys, queries):
        for step in range(STEPS):
            context, weights = module(queries[:, step], keys.transpose(0, 1), ~keep.T)
            yield context, weights.T

    def of_yoyodyne(module, keys, queries):
        for step in range(STEPS):
            context, weights = module(keys, queries[:, step:step + 1], ~keep)
            yield context.reshape(BATCH, D), weights.reshape(BATCH, KEYS)

    def of_texar(module, keys, queries):
        state = torch.zeros(BATCH, KEYS)
        for step in range(STEPS):
            weights, state = module(queries[:, step], state, keys, lens)
            yield (weights[:, None] @ keys).squeeze(1), weights

    def original(**options):
        common = {"location_attention": True, "windowing": False, "norm": "softmax", "forward_attn": False,
                  "trans_agent": False, "forward_attn_mask": False}
        sizes = {"query_dim": Q, "embedding_dim": D, "attention_dim": A, "attention_location_n_filters": C,
                 "attention_location_kernel_size": 2 * HALF + 1}
        return coqui.OriginalAttention(**sizes, **(common | options))

    location = (D, Q, A, C, HALF)
    at = "decoder.att.0."
    yield one("espnet_att_add", at, espnet.AttAdd(D, Q, A), of_espnet(2.0))
    rows = {"mlp_enc.weight": (A, D), "mlp_enc.bias": (A,), "mlp_dec.weight": (A + 1, Q), "gvec.weight": (1, A),
            "gvec.bias": (1,)}
    save_file({n: torch.ones(shape, dtype=torch.float32) for n, shape in rows.items()},
              HERE / "packages" / "misshapen.safetensors")
    yield one("espnet_att_dot", at, espnet.AttDot(D, Q, A), of_espnet(2.0))
    yield one("espnet_att_loc", at, espnet.AttLoc(*location), of_espnet(2.0))
    yield one("espnet_att_loc_cumulative", "dec.att.", espnet.AttLoc(*location), of_espnet(2.0, is_sum=True))
    yield one("espnet_att_cov", at, espnet.AttCov(D, Q, A), of_espnet(2.0))
    yield one("espnet_att_cov_loc", at, espnet.AttCovLoc(*location), of_espnet(2.0))
    yield one("espnet_att_forward", "dec.att.", espnet.AttForward(*location), of_espnet(1.0))
    yield one("espnet_att_forward_ta", "dec.att.", espnet.AttForwardTA(*location, O), of_espnet(1.0),
              outputs=["outputs"])
    at = "decoder.attn."
    yield one("speechbrain_content", at, speechbrain.ContentBasedAttention(D, Q, A, O), of_speechbrain)
    yield one("speechbrain_location", at, speechbrain.LocationAwareAttention(D, Q, A, O, C, HALF), of_speechbrain,
              detached=True)
    yield one("speechbrain_key_value", at, speechbrain.KeyValueAttention(D, Q, A, O), key_value)
    at = "decoder.attention."
    yield one("coqui_content", at, original(location_attention=False), of_coqui)
    yield one("coqui_original", at, original(), of_coqui)
    yield one("coqui_sigmoid", at, original(norm="sigmoid"), of_coqui)
    yield one("coqui_forward", at, original(forward_attn=True), of_coqui)
    yield one("coqui_forward_agent", at, original(forward_attn=True, trans_agent=True), of_coqui)
    yield one("coqui_forward_sigmoid", at, original(forward_attn=True, norm="sigmoid"), of_coqui)
    yield one("coqui_forward_agent_sigmoid", at, original(forward_attn=True, trans_agent=True, norm="sigmoid"),
              of_coqui)
    at = "decoder.attn."
    for kind in ("mlp", "general", "dot"):
        yield one(f"opennmt_{kind}", at, onmt.GlobalAttention(D, attn_type=kind), of_onmt, (D, D))
    at = "decoder.attention."
    yield one("joeynmt_bahdanau", at, joeynmt.BahdanauAttention(A, D, Q), of_joeynmt)
    yield one("joeynmt_luong", at, joeynmt.LuongAttention(Q, D), of_joeynmt)
    yield one("allennlp_additive", "_attention.", additive.AdditiveAttention(Q, D), weights_alone)
    yield one("allennlp_bilinear", "_attention.", bilinear.BilinearAttention(Q, D), weights_alone)
    yield one("fairseq", "decoder.attention.", fairseq.AttentionLayer(Q, D, O), of_fairseq)
    yield one("yoyodyne", "decoder.attention.", yoyodyne.Attention(D, Q), of_yoyodyne)
    # Those that are a recipe in docs/recipes.md.
    at = "decoder.att.0."
    yield one("recipe_heads_add", at, espnet.AttMultiHeadAdd(D, Q, 2, A, O), of_heads)
    yield one("recipe_heads_loc", at, espnet.AttMultiHeadLoc(D, Q, 2, A, O, C, HALF), of_heads)
    yield one("recipe_loc_2d", at, espnet.AttLoc2D(D, Q, A, 2, C, HALF), of_states(lambda state: state[:, -1]))
    yield one("recipe_loc_rec", at, espnet.AttLocRec(D, Q, A, C, HALF), of_states(lambda state: state[0]))
    yield one("recipe_coverage", "decoder.attn.", onmt.GlobalAttention(D, coverage=True, attn_type="mlp"), of_coverage,
              (D, D), detached=True)
    yield one("texar", "decoder.", texar.BahdanauAttention(A, Q, D, normalize=True), of_texar)
    yield one("texar_luong", "decoder.", texar.LuongAttention(Q, D, scale=True), of_texar)


def tensorflow_case():
    import tensorflow as tf
    import tensorflow_addons as tfa
    from safetensors.numpy import save_file

    module = tfa.seq2seq.BahdanauAttention(A, normalize=True)
    keys, queries = drawn("tfa/keys", BATCH, KEYS, D), drawn("tfa/queries", BATCH, STEPS, Q)
    memory = tf.constant(keys, tf.float32)

    def run():
        module.setup_memory(memory, memory_sequence_length=tf.constant(LENS))
        for step in range(STEPS):
            weights, _ = module([tf.constant(queries[:, step], tf.float32), tf.zeros([BATCH, KEYS])])
            yield weights.numpy()

    list(run())  # which makes the variables
    for variable in module.weights:
        variable.assign(drawn(f"tfa/{variable.name}", *variable.shape, std=0.5))
    names = {v.name.removesuffix(":0"): np.asarray(v.numpy()) for v in module.weights}
    save_file(names | {"encoder/kernel": np.ones((2, 2), np.float32)}, HERE / "packages" / "tensorflow_addons.safetensors")
    weights = np.stack(list(run()), 1)
    yield encoded("tensorflow_addons", "BahdanauAttention/", {"keys": keys, "queries": queries},
                  {"weights": weights, "context": weights @ keys}, {})


if __name__ == "__main__":
    if sys.argv[1:] == ["tensorflow"]:
        write("packages_tensorflow.json", "tensorflow-addons 0.23.0", list(tensorflow_case()))
    else:
        import torch
        torch.set_num_threads(1)
        (HERE / "packages").mkdir(exist_ok=True)
        cases = [*keras_case(), sockeye_case(), *torch_cases()]
        is_recipe = [case["name"].startswith("recipe_") for case in cases]
        for file, kind in (("packages.json", False), ("packages_recipes.json", True)):
            chosen = [case for case, is_one in zip(cases, is_recipe) if is_one == kind]
            write(file, f"torch {torch.__version__}", chosen)
