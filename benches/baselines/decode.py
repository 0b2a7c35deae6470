"""Beam search with an encoder-decoder in PyTorch, for `cargo bench --bench decode`; the protocol is in protocol.py.

The model is that of crates/attention-seq2seq, with the weights that the bench has trained, and so are the outputs: each
step keeps the most likely extensions, those that end are outputs, and an example is done when no other can pass its
best. The plain search is as one writes it in PyTorch: all hypotheses of a batch are the rows of a step, until the last
example of the batch is done. The bounded one finds the greedy outputs first, and goes on with the examples in which
another can pass it, as ours does. A batch has words of one length, so there is neither padding nor a mask.
"""

import os

import protocol

PAD, BOS, EOS, UNK = range(4)


def make(setup):
    """`setup`: batch, beam, max_len, is_bounded, sources, expected outputs of the first of them, and weights."""
    import numpy
    import torch
    from torch import nn

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    weights, beam, max_len = setup["weights"], setup["beam"], setup["max_len"]
    values = numpy.fromfile(weights["file"], dtype="<f4")

    def parameter(path):
        place = weights["parameters"][path]
        count = int(numpy.prod(place["shape"]))
        elements = values[place["start"] : place["start"] + count]
        return torch.from_numpy(elements.reshape(place["shape"]).copy())

    def linear(path):
        weight = parameter(f"{path}.weight")
        bias = f"{path}.bias" in weights["parameters"]
        layer = nn.Linear(*weight.shape, bias=bias)
        layer.weight.data = weight.T.contiguous()
        if bias:
            layer.bias.data = parameter(f"{path}.bias")
        return layer

    def fill(module, suffix, path):
        for name, part in (("ih", "input"), ("hh", "hidden")):
            getattr(module, f"weight_{name}{suffix}").data = parameter(f"{path}.{part}.weight").T.contiguous()
            getattr(module, f"bias_{name}{suffix}").data = parameter(f"{path}.{part}.bias")

    source_embedding = parameter("encoder.embedding.weight")
    target_embedding = parameter("decoder.embedding.weight")
    embedding = source_embedding.shape[1]
    hidden = parameter("decoder.output.weight").shape[0] // 2
    layers = sum(path.startswith("decoder.start.") and path.endswith(".weight") for path in weights["parameters"])
    encoder = nn.LSTM(embedding, hidden // 2, layers, batch_first=True, bidirectional=True)
    for layer in range(layers):
        fill(encoder, f"_l{layer}", f"encoder.recurrent.layers.{layer}")
        fill(encoder, f"_l{layer}_reverse", f"encoder.recurrent.reversed.{layer}")
    start = [linear(f"decoder.start.{layer}") for layer in range(layers)]
    cells = [nn.LSTMCell(embedding + hidden if layer == 0 else hidden, hidden) for layer in range(layers)]
    for layer, cell in enumerate(cells):
        fill(cell, "", f"decoder.recurrent.layers.{layer}")
    query, key, score = (linear(f"decoder.attention.score.{part}") for part in ("query", "key", "value"))
    output = linear("decoder.output")
    special = torch.tensor([PAD, BOS, UNK])

    def encode(source):
        states, (last, cell) = encoder(source_embedding[source])
        hiddens, memories = (it.unflatten(0, (layers, 2)).transpose(1, 2).flatten(2) for it in (last, cell))
        return states, key(states), [(torch.tanh(start[at](hiddens[at])), memories[at]) for at in range(layers)]

    def step(tokens, states, keys, values):
        """The log-probabilities `[examples, beam, tokens]`, and the next states; rows are `[examples * beam]`."""
        examples = len(keys)
        queries = query(states[-1][0]).unflatten(0, (examples, -1)).unsqueeze(2)
        scores = score(torch.tanh(queries + keys.unsqueeze(1))).squeeze(-1)
        context = torch.bmm(torch.softmax(scores, -1), values).flatten(0, 1)
        below = torch.cat([target_embedding[tokens], context], 1)
        after = []
        for cell, state in zip(cells, states):
            after.append(cell(below, state))
            below = after[-1][0]
        logits = output(torch.cat([below, context], 1))
        logits[:, special] = -torch.inf
        return torch.log_softmax(logits, -1).unflatten(0, (examples, -1)), after

    def greedy(states, keys, values, best, outputs):
        """Writes the greedy outputs and, of those that end, the sums. Returns, for each example, the greatest sum of
        any other extension of its greedy output from each length on."""
        rows, sums, tokens = torch.arange(len(keys)), torch.zeros(len(keys)), torch.full((len(keys),), BOS)
        others = torch.full((len(keys), max_len + 1), -torch.inf)
        for length in range(max_len):
            likely, states = step(tokens, states, keys, values)
            likely, chosen = likely.squeeze(1).topk(2, 1)
            others[rows, length] = sums + likely[:, 1]
            sums, tokens = sums + likely[:, 0], chosen[:, 0]
            outputs[rows, length] = tokens
            goes_on = tokens != EOS
            best[rows[~goes_on]] = sums[~goes_on]
            if not bool(goes_on.any()):
                break
            rows, sums, tokens, keys, values = (it[goes_on] for it in (rows, sums, tokens, keys, values))
            states = [tuple(part[goes_on] for part in state) for state in states]
        return others.flip(1).cummax(1).values.flip(1)

    def search(source):
        """The tokens of the best output of each source, `[examples, tokens so far]`, cut off or up to its end."""
        values, keys, states = encode(source)
        best = torch.full((len(source),), -torch.inf)
        outputs = torch.full((len(source), max_len), EOS)
        rows = torch.arange(len(source))
        if setup["is_bounded"]:
            others = greedy(states, keys, values, best, outputs)
            greedy_outputs = outputs.clone()
            rows = rows[others[:, 0] > best]
            if len(rows) == 0:
                return outputs.tolist()
        examples = len(rows)
        keys, values = keys[rows], values[rows]
        states = [tuple(part[rows].repeat_interleave(beam, 0) for part in state) for state in states]
        # At first there is one hypothesis: the others have no probability.
        sums = torch.full((examples, beam), -torch.inf)
        sums[:, 0] = 0
        is_greedy = sums == 0
        tokens = torch.full((examples * beam,), BOS)
        written = torch.empty((examples, beam, 0), dtype=torch.long)
        for length in range(max_len):
            likely, states = step(tokens, states, keys, values)
            sums, chosen = (sums.unsqueeze(2) + likely).flatten(1).topk(beam, 1)
            parents, chosen = chosen // likely.shape[2], chosen % likely.shape[2]
            first = torch.arange(len(rows)).unsqueeze(1)
            selected = (first * beam + parents).flatten()
            states = [tuple(part[selected] for part in state) for state in states]
            written = torch.cat([written[first, parents], chosen.unsqueeze(2)], 2)
            ended = torch.where(chosen == EOS, sums, -torch.inf)
            score_of_best, place = ended.max(1)
            is_better = score_of_best > best[rows]
            better = rows[is_better]
            best[better] = score_of_best[is_better]
            outputs[better, : length + 1] = written[first.squeeze(1), place][is_better]
            outputs[better, length + 1 :] = EOS
            sums = torch.where(chosen == EOS, -torch.inf, sums)
            passes = sums > best[rows].unsqueeze(1)
            tokens = chosen.flatten()
            if setup["is_bounded"]:
                # The greedy output is there already: its beginning goes on for the other extensions.
                is_greedy = is_greedy[first, parents] & (chosen == greedy_outputs[rows, length].unsqueeze(1))
                goes_on = (passes & ~is_greedy).any(1) | (others[rows, length + 1] > best[rows])
                rows, sums, written, keys = (it[goes_on] for it in (rows, sums, written, keys))
                values, is_greedy = values[goes_on], is_greedy[goes_on]
                kept = goes_on.repeat_interleave(beam)
                states = [tuple(part[kept] for part in state) for state in states]
                tokens = tokens[kept]
                if len(rows) == 0:
                    break
            elif not bool(passes.any()):
                break
        without = best[rows] == -torch.inf
        live = written[torch.arange(len(rows)), sums.argmax(1)]
        outputs[rows[without], : written.shape[2]] = live[without]
        return outputs.tolist()

    batches = batches_of_one_length(setup["sources"], setup["batch"])

    @torch.inference_mode()
    def call(indices=batches):
        found = {}
        for batch in indices:
            source = torch.tensor([setup["sources"][index] for index in batch])
            found.update(zip(batch, search(source)))
        return found

    check(call(batches), setup["expected"], weights["tokens"])
    return call


def batches_of_one_length(sources, most):
    """Indices of sources, those of one length together."""
    order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
    batches = []
    for index in order:
        if not batches or len(batches[-1]) == most or len(sources[batches[-1][0]]) != len(sources[index]):
            batches.append([])
        batches[-1].append(index)
    return batches


def check(found, expected, tokens):
    """Raises if outputs are others than ours. Sums of f32 round otherwise: one in a hundred may part at a near tie."""

    def text(output):
        return " ".join(tokens[token] for token in output[: output.index(EOS) if EOS in output else None])

    different = [index for index, output in enumerate(expected) if text(found[index]) != output]
    if 100 * len(different) > len(expected):
        index = different[0]
        first = f"{text(found[index])!r} and {expected[index]!r}"
        raise RuntimeError(f"{len(different)} of {len(expected)} outputs differ: {first}")


if __name__ == "__main__":
    protocol.serve(make)
