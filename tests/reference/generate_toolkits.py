"""Searches tables of probabilities with other toolkits, for the tests of the book's "Your toolkit's settings here".

    pip install torch==2.15.0 transformers==5.24.0 ctranslate2==4.8.5 numpy safetensors
    pip install --no-deps OpenNMT-py==3.5.1 joeynmt==2.3.0
    python tests/reference/generate_toolkits.py

A logit of the next token is the sum of two tables: by the last token, and by the number of tokens before (so that no
two texts are equally likely). Each text begins with token 0, and token 2 ends it. The searches are the
packages' own: `generate` of a model that looks up the tables (transformers), a decoder whose layers add nothing and
whose output layer is the tables (CTranslate2), `BeamSearch` (OpenNMT-py) and `beam_search` (JoeyNMT). See README.md.
"""

import functools
import importlib.util
import json
import sys
import tempfile
import types
from pathlib import Path

import ctranslate2
import numpy as np
import torch
import transformers
from transformers import (
    BartConfig, BartForConditionalGeneration, GenerationConfig, GenerationMixin, PretrainedConfig, PreTrainedModel,
)
from transformers.modeling_outputs import CausalLMOutput

HERE = Path(__file__).parent
VOCAB, START, END, SOURCE, MOST = 7, 0, 2, 3, 8
TOKENS = ["<s>", "<unk>", "</s>", "a", "b", "c", "d"]
TABLES = 6


def table(index):
    random = np.random.default_rng(index)
    logits = random.normal(0.0, 1.3, (VOCAB, VOCAB))
    logits[:, END] += 0.6
    logits[:, START] -= 3.0
    return np.round(logits * 64) / 64


def positions(index):
    return np.round(np.random.default_rng(1000 + index).normal(0.0, 0.6, (MOST, VOCAB)) * 64) / 64


TABLE = [table(index) for index in range(TABLES)]
POSITIONS = [positions(index) for index in range(TABLES)]
# The attention of each last token to the source.
ATTENTION = torch.softmax(torch.tensor(np.round(np.random.default_rng(99).normal(0, 2, (VOCAB, SOURCE)) * 64) / 64), -1)


# ---- transformers

class TableConfig(PretrainedConfig):
    model_type = "table"


class TableModel(PreTrainedModel, GenerationMixin):
    config_class = TableConfig

    def __init__(self, index):
        super().__init__(TableConfig(vocab_size=VOCAB))
        self.logits = torch.nn.Parameter(torch.tensor(TABLE[index], dtype=torch.float32))
        self.positions = torch.tensor(POSITIONS[index], dtype=torch.float32)

    def forward(self, input_ids, **_):
        return CausalLMOutput(logits=self.logits[input_ids] + self.positions[:input_ids.shape[1]])

    def prepare_inputs_for_generation(self, input_ids, **_):
        return {"input_ids": input_ids}


def of_transformers(index, **settings):
    beams = settings.get("num_beams", 1)
    ends = settings.get("eos_token_id", END)
    config = GenerationConfig(pad_token_id=VOCAB, **({"eos_token_id": END, "max_new_tokens": MOST, "use_cache": False,
        "num_return_sequences": beams, "output_scores": True, "return_dict_in_generate": True} | settings))
    found = TableModel(index).generate(torch.tensor([[START]]), generation_config=config)
    scores = found.sequences_scores.tolist() if beams > 1 else [None]
    ends = ends if isinstance(ends, list) else [ends]
    outputs = []
    for tokens, score in zip(found.sequences[:, 1:].tolist(), scores):
        length = next((at + 1 for at, token in enumerate(tokens) if token in ends), len(tokens))
        outputs.append({"tokens": tokens[:length], "score": score})
    return outputs


def transformers_rows():
    rows = [{"length_penalty": penalty} for penalty in (1.0, 0.0, 0.6, 2.0, -0.5)]
    rows += [{"early_stopping": mode, "length_penalty": penalty} for mode in (True, "never") for penalty in (1.0, 0.5)]
    rows += [{"repetition_penalty": 1.4}, {"repetition_penalty": 0.8}]
    rows += [{"no_repeat_ngram_size": 1}, {"no_repeat_ngram_size": 2}]
    rows += [{"eos_token_id": [2, 5]}, {"eos_token_id": [2, 4, 6], "early_stopping": True}, {"min_new_tokens": 3}]
    for row in rows:
        yield {"num_beams": 3} | row
    yield {"num_beams": 5}
    for row in ({"repetition_penalty": 1.7}, {"no_repeat_ngram_size": 2}, {"min_new_tokens": 4}):
        yield row  # greedy


def distribution(logits, settings):
    model = TableModel(0)
    config = GenerationConfig(do_sample=True, eos_token_id=END, pad_token_id=VOCAB, **settings)
    processors = model._get_logits_processor(generation_config=config, input_ids_seq_length=1,
                                             device=torch.device("cpu"))
    scores = processors(torch.tensor([[START]]), torch.tensor([logits], dtype=torch.float32))
    return torch.softmax(scores.double(), -1)[0].tolist()


def sampling_rows():
    ties = [2.0, 1.0, 1.0, 1.0, 0.5, 0.5, -1.0]
    shares = np.log([0.5, 0.4, 0.1]).tolist() + [-40.0] * 4
    drawn = [TABLE[0][3].tolist(), TABLE[1][4].tolist(), ties, shares]
    settings = [{"temperature": 0.7}, {"top_k": 2}, {"top_k": 5}, {"top_k": 0, "top_p": 0.9},
                {"top_k": 0, "top_p": 0.55}, {"top_k": 0, "min_p": 0.15}, {"top_k": 0, "min_p": 0.5},
                {"temperature": 2.0, "top_k": 4, "top_p": 0.7, "min_p": 0.3},
                {"temperature": 0.5, "top_k": 0, "min_p": 0.3}]
    for logits in drawn:
        for row in settings:
            yield {"logits": logits, "settings": row, "probabilities": distribution(logits, row)}


# ---- CTranslate2

def ctranslate2_model(index, folder):
    size = VOCAB + MOST + 1
    config = BartConfig(vocab_size=size, d_model=size, encoder_layers=1, decoder_layers=1, encoder_attention_heads=1,
                        decoder_attention_heads=1, encoder_ffn_dim=4, decoder_ffn_dim=4, max_position_embeddings=64,
                        activation_function="relu", scale_embedding=False)
    config.normalize_before = False
    model = BartForConditionalGeneration(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
        model.model.shared.weight.copy_(torch.eye(size))
    spec = ctranslate2.converters.transformers.BartLoader().get_model_spec(model)
    # The layers add nothing, but normalize a row of the identity four times, each with an epsilon of 1e-5.
    row = np.eye(size)[0] + np.eye(size)[VOCAB]
    for _ in range(4):
        row = (row - row.mean()) / np.sqrt(row.var() + 1e-5)
    weight = np.zeros((VOCAB, size), np.float64)
    weight[:, :VOCAB], weight[:, VOCAB:-1] = TABLE[index].T, POSITIONS[index].T
    weight[:, -1] = -weight.sum(1)  # whatever the row has in all of its elements is no logit
    spec.decoder.projection.weight = (weight / (row[0] - row[1])).astype(np.float32)
    spec.decoder.projection.bias = np.zeros(VOCAB, np.float32)
    for part in (spec.encoder.embeddings[0], spec.decoder.embeddings):
        part.weight = np.eye(size, dtype=np.float32)[:VOCAB]
    for part in (spec.encoder, spec.decoder):
        part.position_encodings.encodings = np.eye(size, dtype=np.float32)[VOCAB:-1]
    spec.register_source_vocabulary(TOKENS)
    spec.register_target_vocabulary(TOKENS)
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "<s>", "</s>", "<unk>"
    spec.config.decoder_start_token = "<s>"
    spec.validate()
    spec.save(folder)
    return ctranslate2.Translator(folder, device="cpu", compute_type="float32", inter_threads=1, intra_threads=1)


def of_ctranslate2(translator, **settings):
    prefix = settings.pop("target_prefix", None)
    beam = settings.setdefault("beam_size", 3)
    hypotheses = settings.setdefault("num_hypotheses", beam)
    result, = translator.translate_batch([["a"] * SOURCE], None if prefix is None else [prefix], return_scores=True,
        max_decoding_length=MOST, return_end_token=True, num_hypotheses=settings.pop("num_hypotheses"), **settings)
    assert len(result.hypotheses) <= hypotheses
    return [{"tokens": [TOKENS.index(token) for token in tokens], "score": score}
            for tokens, score in zip(result.hypotheses, result.scores)]


def ctranslate2_rows():
    for penalty in (1.0, 0.6, 2.0):
        yield {"length_penalty": penalty, "min_decoding_length": 0}
    yield {"length_penalty": 0.0, "min_decoding_length": 0, "num_hypotheses": 1}
    yield {"length_penalty": 1.0, "min_decoding_length": 1}
    yield {"length_penalty": 1.0, "min_decoding_length": 0, "coverage_penalty": 0.3}
    yield {"length_penalty": 1.0, "min_decoding_length": 0, "target_prefix": ["a", "b"]}
    yield {"beam_size": 1, "repetition_penalty": 1.7, "min_decoding_length": 0}
    yield {"beam_size": 1, "no_repeat_ngram_size": 2, "min_decoding_length": 0}


# ---- OpenNMT-py

@functools.cache
def opennmt():
    """The search alone: the packages around it import what it does not need."""
    folder = Path(importlib.util.find_spec("onmt").submodule_search_locations[0])
    for name in ("onmt", "onmt.utils", "onmt.translate"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
    from onmt.translate.beam_search import BeamSearch, GNMTGlobalScorer
    return BeamSearch, GNMTGlobalScorer


def of_opennmt(index, beam_size=3, n_best=3, length_penalty="avg", alpha=1.0, coverage_penalty="none", beta=0.0,
               min_length=0, block_ngram_repeat=0):
    BeamSearch, GNMTGlobalScorer = opennmt()
    scorer = GNMTGlobalScorer(alpha, beta, length_penalty, coverage_penalty)
    search = BeamSearch(beam_size, 1, pad=VOCAB, bos=START, eos=END, unk=1, start=START, n_best=n_best,
                        global_scorer=scorer, min_length=min_length, max_length=MOST, return_attention=False,
                        block_ngram_repeat=block_ngram_repeat, exclusion_tokens=set(), stepwise_penalty=False,
                        ratio=0.0, ban_unk_token=False)
    search.initialize(torch.zeros(1, SOURCE, 1), torch.tensor([SOURCE]))
    logits = torch.tensor(TABLE[index], dtype=torch.float32)
    for position in torch.tensor(POSITIONS[index], dtype=torch.float32):
        last = search.current_predictions
        search.advance(torch.log_softmax(logits[last] + position, -1), ATTENTION.float()[last][:, None])
        if any(any(of) for of in search.is_finished_list):
            search.update_finished()
            if search.done:
                break
    return [{"tokens": tokens.tolist(), "score": float(score)}
            for tokens, score in zip(search.predictions[0], search.scores[0])]


def opennmt_rows():
    yield {}
    yield {"length_penalty": "none"}
    yield {"alpha": 0.6}
    yield {"length_penalty": "wu", "alpha": 0.6}
    yield {"length_penalty": "wu", "alpha": 1.0, "n_best": 1}
    yield {"beam_size": 5, "n_best": 2, "alpha": 2.0}
    yield {"min_length": 3}
    yield {"coverage_penalty": "wu", "beta": 0.4}
    yield {"block_ngram_repeat": 2}


# ---- JoeyNMT

class JoeyModel:
    bos_index, eos_index, pad_index, unk_index, sep_index, specials, lang_tags = START, END, VOCAB, 1, None, [], []
    decoder = types.SimpleNamespace(output_size=VOCAB, _init_hidden=lambda hidden: hidden)

    def __init__(self, index):
        self.logits, self.positions = (torch.tensor(of[index], dtype=torch.float32) for of in (TABLE, POSITIONS))
        self.step = -1

    def __call__(self, trg_input, decoder_hidden, **_):
        self.step += 1
        return (self.logits[trg_input[:, -1:]] + self.positions[self.step]), decoder_hidden, None, None


@functools.cache
def joeynmt():
    from generate_packages import Stubs, alone
    sys.meta_path.append(Stubs())  # for what JoeyNMT reads texts with
    search = alone("joeynmt.search")
    sys.meta_path.pop()
    return search


def of_joeynmt(index, alpha, n_best=3, **settings):
    encoded, mask = torch.zeros(1, SOURCE, 1), torch.ones(1, 1, SOURCE)
    tokens, scores, _ = joeynmt().beam_search(JoeyModel(index), 3, encoded, torch.zeros(1, 1, 1), mask, MOST, alpha,
                                              n_best, return_prob="hyp", **settings)
    outputs = [[token for token in of if token != VOCAB] for of in tokens.tolist()]
    return [{"tokens": tokens, "score": score} for tokens, (score,) in zip(outputs, scores.tolist()) if tokens != [1]]


def rows():
    for settings in transformers_rows():
        for index in range(TABLES):
            yield {"toolkit": "transformers", "table": index, "settings": settings,
                   "outputs": of_transformers(index, **settings)}
    for index in range(TABLES):
        with tempfile.TemporaryDirectory() as folder:
            translator = ctranslate2_model(index, folder)
            for settings in ctranslate2_rows():
                yield {"toolkit": "ctranslate2", "table": index, "settings": settings,
                       "outputs": of_ctranslate2(translator, **settings)}
    for settings in opennmt_rows():
        for index in range(TABLES):
            yield {"toolkit": "opennmt", "table": index, "settings": settings, "outputs": of_opennmt(index, **settings)}
    for settings in ({"alpha": -1}, {"alpha": 0.6}, {"alpha": 1.5}, {"alpha": 1.0, "repetition_penalty": 1.6}):
        for index in range(TABLES):
            yield {"toolkit": "joeynmt", "table": index, "settings": settings, "outputs": of_joeynmt(index, **settings)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    generator = ("tests/reference/generate_toolkits.py, transformers {}, ctranslate2 {}, OpenNMT-py 3.5.1, joeynmt 2.3.0, torch {}"
                 .format(transformers.__version__, ctranslate2.__version__, torch.__version__))
    found = {"rows": list(rows()), "sampling": list(sampling_rows())}
    lists = {"tables": [of.tolist() for of in TABLE], "positions": [of.tolist() for of in POSITIONS],
             "attention": [ATTENTION.tolist()], **found}
    lines = [f'"{name}":[\n' + ",\n".join(json.dumps(of, separators=(",", ":")) for of in lists[name]) + "\n]"
             for name in lists]
    path = HERE / "toolkits.json"
    path.write_text(f'{{"generator":{json.dumps(generator)},\n' + ",\n".join(lines) + "}\n")
    print(path.name, path.stat().st_size, len(found["rows"]), len(found["sampling"]))
