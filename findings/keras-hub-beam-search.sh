#!/usr/bin/env bash
# keras-hub 0.32.0 (keras 3.15.1, jax 0.10.2): BeamSampler scores a text by what follows its end, too; and beside a
# shorter prompt, the beams of a longer one become copies of each other.
#
# Beams go on until all of them have a stop token, and the score of one that has ended is multiplied by the
# probabilities of words that do not belong to it. In a batch, prediction starts at the end of the shortest prompt:
# within a longer one, beams are chosen and scored by words that the prompt then overwrites, so that all of them hold
# one text, and repetitions take the places of other texts. In the chains below, the next word depends on the last one
# alone.
#
# Seen, with two beams: "1 2 5", where 5 ends a text, has the probability 0.45, a score of 0.09, and comes second to a
# text of 0.288. The prompt "1 3" goes on with "4 4", of 0.324, if it is alone; beside the prompt "1" both its beams go
# on with "2 3", of 0.165, and have scores of 0.066 and 0.058. The documentation speaks of accumulated probabilities,
# and of neither.
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


def searched(chain, prompts, length, stop=None):
    logits = ops.convert_to_tensor(np.log(np.float32(chain) + 1e-30))
    tokens, mask = np.zeros((len(prompts), length), np.int32), np.zeros((len(prompts), length), bool)
    for index, prompt in enumerate(prompts):
        tokens[index, : len(prompt)], mask[index, : len(prompt)] = prompt, True
    sampler = keras_hub.samplers.BeamSampler(num_beams=2, return_all_beams=True)
    texts, scores = sampler(
        next=lambda text, cache, index: (ops.take(logits, text[:, index - 1], axis=0), None, cache),
        prompt=ops.convert_to_tensor(tokens),
        mask=ops.convert_to_tensor(mask),
        index=min(map(len, prompts)),
        stop_token_ids=stop,
    )
    found = []
    for text, score in zip(np.array(texts)[-1].tolist(), np.exp(np.float64(scores))[-1]):
        text = text[: text.index(stop[0]) + 1] if stop and stop[0] in text else text
        steps = zip(text[len(prompts[-1]) - 1 :], text[len(prompts[-1]) :])
        own = np.prod([chain[last][word] for last, word in steps])
        found.append((text, round(float(own), 3), round(float(score), 3)))
        print(f"prompts {prompts}: {text}, probability {own:.3f}, score {score:.3f}")
    return found


even = [0, 0.2, 0.2, 0.2, 0.2, 0.2]
chain = [even, [0, 0, 0.5, 0.4, 0.1, 0], [0, 0, 0, 0.1, 0, 0.9], [0, 0.1, 0, 0, 0.9, 0], [0, 0, 0, 0, 0.2, 0.8], even]
ends = searched(chain, [[1]], 5, stop=[5])
chain[1:4] = [0, 0.1, 0.4, 0.35, 0.1, 0.05], [0, 0.2, 0.2, 0.3, 0.2, 0.1], [0, 0, 0.55, 0.09, 0.36, 0]
chain[4] = [0, 0, 0, 0.1, 0.9, 0]
alone, beside = (searched(chain, prompts, 4) for prompts in ([[1, 3]], [[1], [1, 3]]))
held = [ends == [([1, 3, 4, 5], 0.288, 0.288), ([1, 2, 5], 0.45, 0.09)], alone[0] == ([1, 3, 4, 4], 0.324, 0.324)]
held += [beside == [([1, 3, 2, 3], 0.165, 0.066), ([1, 3, 2, 3], 0.165, 0.058)]]
raise SystemExit(not all(held))
PYTHON
