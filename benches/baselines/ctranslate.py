"""Beam search with a Transformer in CTranslate2, for `cargo bench --bench decode`; the protocol is in protocol.py.

The model is that of crates/attention-seq2seq, with the weights that the bench has trained, written by CTranslate2's own
converter. Its tokens are their ids.
"""

import os
import tempfile

import decode
import protocol


def make(setup):
    """`setup`: batch, beam, max_len, compute_type, heads, sources, expected outputs of the first, and weights."""
    import ctranslate2

    with tempfile.TemporaryDirectory() as folder:
        spec = specification(setup)
        spec.validate()
        spec.optimize()
        spec.save(folder)
        threads = int(os.environ["OMP_NUM_THREADS"])
        translator = ctranslate2.Translator(
            folder, compute_type=setup["compute_type"], inter_threads=threads, intra_threads=1
        )
    sources = [[str(token) for token in source] for source in setup["sources"]]

    def call(sources=sources):
        results = translator.translate_batch(
            sources,
            max_batch_size=setup["batch"],
            beam_size=setup["beam"],
            length_penalty=0,
            max_decoding_length=setup["max_len"],
        )
        return [[int(token) for token in result.hypotheses[0]] for result in results]

    # Whole numbers of 8 bits choose otherwise where two outputs are about as likely.
    if setup["compute_type"] == "float32":
        decode.check(call(sources[: len(setup["expected"])]), setup["expected"], setup["weights"]["tokens"])
    return call


def specification(setup):
    import numpy
    from ctranslate2.specs import TransformerSpec

    weights = setup["weights"]
    values = numpy.fromfile(weights["file"], dtype="<f4")

    def parameter(path):
        place = weights["parameters"][path]
        count = int(numpy.prod(place["shape"]))
        return values[place["start"] : place["start"] + count].reshape(place["shape"])

    def linear(to, *paths):
        to.weight = numpy.concatenate([parameter(f"{path}.weight").T for path in paths])
        to.bias = numpy.concatenate([parameter(f"{path}.bias") for path in paths])

    def norm(to, path):
        to.gamma, to.beta = parameter(f"{path}.gamma"), parameter(f"{path}.beta")

    def feed_forward(to, path):
        norm(to.layer_norm, f"{path}.feed_forward_residual.norm")
        linear(to.linear_0, f"{path}.feed_forward.input")
        linear(to.linear_1, f"{path}.feed_forward.output")

    def attention(to, path, projections):
        norm(to.layer_norm, f"{path}_residual.norm")
        for layer, names in zip(to.linear, projections):
            linear(layer, *(f"{path}.{name}" for name in names))

    layers = sum(path.endswith("cross_attention.query.weight") for path in weights["parameters"])
    spec = TransformerSpec.from_config((layers, layers), setup["heads"], pre_norm=True)
    itself, memory = [["query", "key", "value"], ["output"]], [["query"], ["key", "value"], ["output"]]
    for side in ("encoder", "decoder"):
        stack = getattr(spec, side)
        for index, layer in enumerate(stack.layer):
            path = f"{side}.layers.{index}"
            attention(layer.self_attention, f"{path}.attention", itself)
            if side == "decoder":
                attention(layer.attention, f"{path}.cross_attention", memory)
            feed_forward(layer.ffn, path)
        norm(stack.layer_norm, f"{side}.norm")
        stack.scale_embeddings = True
        size = parameter("output.weight").shape[0]
        angles = numpy.arange(1024)[:, None] * 10_000.0 ** (-(numpy.arange(size) // 2 * 2) / size)
        stack.position_encodings.encodings = numpy.where(
            numpy.arange(size) % 2 == 0, numpy.sin(angles), numpy.cos(angles)
        ).astype("float32")
    spec.encoder.embeddings[0].weight = parameter("source_embedding.tokens.weight")
    spec.decoder.embeddings.weight = parameter("target_embedding.tokens.weight")
    linear(spec.decoder.projection, "output")
    for register, table in ((spec.register_source_vocabulary, "source"), (spec.register_target_vocabulary, "target")):
        count = len(parameter(f"{table}_embedding.tokens.weight"))
        register([str(token) for token in range(count)])
    config = spec.config
    config.bos_token = config.decoder_start_token = str(decode.BOS)
    config.eos_token, config.unk_token, config.add_source_eos = str(decode.EOS), str(decode.UNK), True
    return spec


if __name__ == "__main__":
    protocol.serve(make)
