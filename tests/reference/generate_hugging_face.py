"""Writes tiny language models of Hugging Face's `transformers`, and their logits, for the Rust tests to compare against
(see README.md).

    pip install torch==2.15.0 transformers==5.24.0 sentence-transformers==6.2.0 numpy safetensors
    python tests/reference/generate_hugging_face.py

Parameters are drawn as in generate.py, so that attention is neither uniform nor on one key. Each of the settings that a
family is known for is changed once, to see that the logits tell.
"""

import json
import shutil
from tempfile import TemporaryDirectory

import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (BartConfig, BartForConditionalGeneration, BertConfig, BertForMaskedLM, BertModel,
                          BloomConfig, BloomForCausalLM, DistilBertConfig, DistilBertForMaskedLM, ElectraConfig,
                          ElectraForMaskedLM, Gemma2Config, Gemma2ForCausalLM, Gemma3Config, Gemma3ForCausalLM,
                          Gemma3ForConditionalGeneration, Gemma3TextConfig, GemmaConfig, GemmaForCausalLM, GPT2Config,
                          GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, LlamaModel, MarianConfig, MarianMTModel,
                          MBartConfig, MBartForConditionalGeneration, MinistralConfig, MinistralForCausalLM,
                          MistralConfig, MistralForCausalLM, MT5Config, MT5ForConditionalGeneration, OPTConfig,
                          OPTForCausalLM, Phi3Config, Phi3ForCausalLM, PreTrainedTokenizerFast, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, RobertaConfig, RobertaForMaskedLM, T5Config,
                          T5EncoderModel, T5ForConditionalGeneration)

from generate import HERE, draw, to_json

FOLDER = HERE / "hugging_face"
TEXTS, TOKENS = 2, 11
GENERATOR = f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"

# The least change of a logit, in parts of the largest, by which a setting is seen.
SEEN = 1e-2


def filled(model, family, gain):
    """The model with drawn parameters; the gains of its normalizations are near `gain`, and its biases near 0."""

    def std(name, like):
        if like.dim() == 1 or "sinks" in name or "expert" in name or "router" in name:
            return 0.3
        if "embed" in name or "wte" in name or "wpe" in name or "lm_head" in name:
            return 0.4
        sizes = like.shape
        is_conv1d = "c_attn" in name or "c_proj" in name or "c_fc" in name
        inputs = sizes[0] if is_conv1d else sizes[1]
        compared = ("q_proj", "k_proj", "c_attn", "query_key_value")
        return (1.8 if any(n in name for n in compared) else 1.2) * inputs ** -0.5

    def parameter(name, like):
        # Of those that are one tensor under two names, one is drawn.
        drawn = draw(f"{family}/{name}", *like.shape, std=std(name, like))
        is_norm = "norm" in name.lower() or ".ln_" in name
        return gain + drawn if is_norm and name.endswith("weight") else drawn

    with torch.no_grad():
        for name, like in model.named_parameters():
            like.copy_(parameter(name, like))
    return model.eval()


def tokens_of(family, vocab_size):
    drawn = draw(f"{family}/tokens", TEXTS, TOKENS).abs() * 64
    return drawn.long() % vocab_size


def config_of(kind, settings):
    return kind(**settings, attn_implementation="eager")


def logits_of(model_kind, config, parameters, tokens):
    model = model_kind(config).double().eval()
    model.load_state_dict(parameters)
    with torch.no_grad():
        return model(tokens, use_cache=False).logits


def save(model, folder, shard_size=None):
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, **({"max_shard_size": shard_size} if shard_size else {}))
    (folder / "generation_config.json").unlink(missing_ok=True)


def write(folder, **content):
    (folder / "expected.json").write_text(json.dumps({"generator": GENERATOR} | content) + "\n")


def language_model(family, model_kind, config_kind, settings, others, gain=1.0, shard_size=None):
    """A model of `settings` in the folder of `family`; each of the `others` is seen."""
    model = filled(model_kind(config_of(config_kind, settings)), family, gain)
    folder = FOLDER / family
    save(model, folder, shard_size)
    parameters = model.double().state_dict()
    tokens = tokens_of(family, model.config.get_text_config().vocab_size)
    logits = logits_of(model_kind, config_of(config_kind, settings), parameters, tokens)
    for other in others:
        changed = logits_of(model_kind, config_of(config_kind, settings | other), parameters, tokens)
        change = ((changed - logits).abs().max() / logits.abs().max()).item()
        assert change > SEEN, f"{family}: {other} changes the logits by {change}"
    write(folder, tokens=tokens.tolist(), logits=to_json(logits, exact=False))


NO_DROPOUT = {"attention_dropout": 0.0}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 1000.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}

llama = {"vocab_size": 37, "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-4, "rope_parameters": LLAMA3}
language_model("llama", LlamaForCausalLM, LlamaConfig, llama, [
    {"rope_parameters": LLAMA3 | {"rope_type": "default"}}, {"rope_parameters": LLAMA3 | {"rope_theta": 10.0}},
    {"rms_norm_eps": 1.0}, {"hidden_act": "gelu"}])

# The embedding as the head, and biases; in shards.
LINEAR = {"rope_type": "linear", "rope_theta": 100.0, "factor": 3.0}
biased = llama | {"vocab_size": 31, "num_key_value_heads": 1, "tie_word_embeddings": True, "attention_bias": True,
                  "mlp_bias": True, "rope_parameters": LINEAR}
language_model("llama_sharded", LlamaForCausalLM, LlamaConfig, biased,
               [{"rope_parameters": LINEAR | {"rope_type": "default"}}], shard_size="8KB")

qwen3 = {"vocab_size": 41, "hidden_size": 20, "intermediate_size": 18, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 32, "rms_norm_eps": 1e-3,
         "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}, "use_sliding_window": True,
         "sliding_window": 4, "max_window_layers": 1}
language_model("qwen3", Qwen3ForCausalLM, Qwen3Config, qwen3, [
    {"sliding_window": 5}, {"max_window_layers": 2}, {"max_window_layers": 0}, {"rms_norm_eps": 0.5},
    {"rope_parameters": {"rope_type": "default", "rope_theta": 10.0}}])

DEFAULT = {"rope_type": "default", "rope_theta": 300.0}
mistral = {"vocab_size": 39, "hidden_size": 20, "intermediate_size": 18, "num_hidden_layers": 2,
           "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 32,
           "rms_norm_eps": 1e-3, "rope_parameters": DEFAULT, "sliding_window": 4}
language_model("mistral", MistralForCausalLM, MistralConfig, mistral, [
    {"sliding_window": 5}, {"sliding_window": None}, {"rope_parameters": DEFAULT | {"rope_theta": 10.0}}])

# Windows from the second layer on; and the embedding as the head, without a window, as the small ones have it.
qwen2 = {"vocab_size": 41, "hidden_size": 24, "intermediate_size": 18, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-3, "rope_parameters": DEFAULT,
         "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}
language_model("qwen2", Qwen2ForCausalLM, Qwen2Config, qwen2, [
    {"sliding_window": 5}, {"max_window_layers": 0}, {"use_sliding_window": False}])
language_model("qwen2_tied", Qwen2ForCausalLM, Qwen2Config,
               qwen2 | {"use_sliding_window": False, "tie_word_embeddings": True}, [{"rms_norm_eps": 0.5}])

gemma2 = {"vocab_size": 43, "hidden_size": 20, "intermediate_size": 22, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 32,
          "rms_norm_eps": 1e-3, "rope_parameters": {"rope_type": "default", "rope_theta": 200.0}, "sliding_window": 4,
          "query_pre_attn_scalar": 3, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}
language_model("gemma2", Gemma2ForCausalLM, Gemma2Config, gemma2, [
    {"sliding_window": 5}, {"layer_types": ["full_attention", "sliding_attention"]}, {"query_pre_attn_scalar": 6},
    {"attn_logit_softcapping": None}, {"final_logit_softcapping": None}, {"hidden_activation": "silu"},
    {"rope_parameters": {"rope_type": "default", "rope_theta": 10.0}}], gain=0.0)

ANGLES = {"sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
          "full_attention": {"rope_type": "linear", "rope_theta": 3000.0, "factor": 2.0}}
gemma3 = {"vocab_size": 47, "hidden_size": 20, "intermediate_size": 22, "num_hidden_layers": 3,
          "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 6, "max_position_embeddings": 32,
          "rms_norm_eps": 1e-3, "rope_parameters": ANGLES, "sliding_window": 4, "query_pre_attn_scalar": 3,
          "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
language_model("gemma3", Gemma3ForCausalLM, Gemma3TextConfig, gemma3, [
    {"sliding_window": 5}, {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"]},
    {"query_pre_attn_scalar": 6},
    {"rope_parameters": ANGLES | {"full_attention": ANGLES["sliding_attention"]}},
    {"rope_parameters": ANGLES | {"sliding_attention": ANGLES["full_attention"]}}], gain=0.0)

gpt2 = {"vocab_size": 53, "n_embd": 20, "n_head": 4, "n_layer": 2, "n_positions": 13, "n_inner": 28,
        "layer_norm_epsilon": 1e-3, "scale_attn_by_inverse_layer_idx": True}
language_model("gpt2", GPT2LMHeadModel, GPT2Config, gpt2, [
    {"scale_attn_by_inverse_layer_idx": False}, {"scale_attn_weights": False}, {"activation_function": "relu"},
    {"layer_norm_epsilon": 0.5}])

# Layers of both kinds.
ministral = mistral | {"vocab_size": 37, "layer_types": ["full_attention", "sliding_attention"]}
language_model("ministral", MinistralForCausalLM, MinistralConfig, ministral, [
    {"layer_types": ["sliding_attention", "full_attention"]}, {"sliding_window": 5}])

# Half of the features of a head turn, by angles that other texts would change.
LONGROPE = {"rope_type": "longrope", "rope_theta": 200.0, "partial_rotary_factor": 0.5, "short_factor": [1.5, 3.0],
            "long_factor": [2.0, 8.0], "original_max_position_embeddings": 16}
phi3 = {"vocab_size": 41, "hidden_size": 32, "intermediate_size": 18, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 64, "original_max_position_embeddings": 16,
        "rms_norm_eps": 1e-3, "rope_parameters": LONGROPE, "sliding_window": 5, "pad_token_id": 0, "bos_token_id": 1,
        "eos_token_id": 2}
language_model("phi3", Phi3ForCausalLM, Phi3Config, phi3, [
    {"sliding_window": 6}, {"sliding_window": None}, {"rope_parameters": LONGROPE | {"short_factor": [1.0, 1.0]}},
    {"max_position_embeddings": 16}])

gemma = {"vocab_size": 43, "hidden_size": 20, "intermediate_size": 22, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 32, "rms_norm_eps": 1e-3,
         "rope_parameters": DEFAULT}
language_model("gemma", GemmaForCausalLM, GemmaConfig, gemma, [
    {"hidden_act": "silu"}, {"rope_parameters": DEFAULT | {"rope_theta": 10.0}}], gain=0.0)

opt = {"vocab_size": 37, "hidden_size": 20, "ffn_dim": 28, "num_hidden_layers": 2, "num_attention_heads": 4,
       "max_position_embeddings": 13}
language_model("opt", OPTForCausalLM, OPTConfig, opt, [{"activation_function": "gelu"}])

# Beside a model of pictures, in a file without the fields of the text model that have their defaults.
OF_PICTURES = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
               "image_size": 4, "patch_size": 2}
of_texts = gemma3 | {"vocab_size": 31, "hidden_size": 24, "num_attention_heads": 8, "num_key_value_heads": 4,
                     "rms_norm_eps": 1e-6, "query_pre_attn_scalar": 256, "max_position_embeddings": 131072}
language_model("gemma3_pictures", Gemma3ForConditionalGeneration, Gemma3Config, {
    "text_config": of_texts, "vision_config": OF_PICTURES, "mm_tokens_per_image": 1, "image_token_index": 30,
    "boi_token_index": 29, "eoi_token_index": 28}, [{"text_config": of_texts | {"sliding_window": 5}}], gain=0.0)
config_file = FOLDER / "gemma3_pictures" / "config.json"
config = json.loads(config_file.read_text())
for name in ["num_attention_heads", "num_key_value_heads", "rms_norm_eps", "query_pre_attn_scalar",
             "max_position_embeddings", "hidden_activation", "final_logit_softcapping"]:
    del config["text_config"][name]
config_file.write_text(json.dumps(config, indent=2) + "\n")

# Heads that are no power of two.
bloom = {"vocab_size": 59, "hidden_size": 18, "n_head": 3, "n_layer": 2, "layer_norm_epsilon": 1e-3}
language_model("bloom", BloomForCausalLM, BloomConfig, bloom, [{"layer_norm_epsilon": 0.5}])


# ---- BERT, T5 and BART: padded texts, whose rows of padding are not compared

LENS = [11, 6]


def scaled(model, **factors):
    """The model, the parameters of which that have a part of a name are multiplied."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            for part, factor in factors.items():
                if part in name:
                    parameter.mul_(factor)
    return model


def attended(lens, rows):
    return (torch.arange(rows) < torch.tensor(lens)[:, None]).long()


def seen(family, logits, changed, what):
    """Asserts that a change is seen in the rows that are no padding."""
    change = ((changed - logits)[attended(LENS, logits.shape[1]).bool()].abs().max() / logits.abs().max()).item()
    assert change > SEEN, f"{family}: {what} changes the logits by {change}"


def bert_model(family, settings, others, kinds=(BertForMaskedLM, BertConfig), num_types=2, first_token=0,
               padding=None):
    """An encoder with the head of its masked language model; no token is below `first_token`, as that of padding is,
    but for two tokens of `padding` within the first text, which are seen to be no positions."""
    model_kind, config_kind = kinds
    folder = FOLDER / family
    model = filled(model_kind(config_of(config_kind, settings)), family, 1.0)
    save(model, folder)
    tokens = tokens_of(family, settings["vocab_size"] - first_token) + first_token
    if padding is not None:
        tokens[0, [3, 7]] = padding
    types = (draw(f"{family}/types", TEXTS, TOKENS) > 0).long() % max(num_types, 1)
    inputs = {"input_ids": tokens, "attention_mask": attended(LENS, TOKENS)}
    if num_types:
        inputs["token_type_ids"] = types

    def logits_of(model, **changes):
        with torch.no_grad():
            return model(**inputs | changes).logits

    parameters = model.double().state_dict()
    logits = logits_of(model_kind.from_pretrained(folder, attn_implementation="eager").double())
    for other in others:
        changed = model_kind(config_of(config_kind, settings | other)).double().eval()
        changed.load_state_dict(parameters)
        seen(family, logits, logits_of(changed), other)
    changed_types = [{"token_type_ids": 1 - types}] if num_types == 2 else []
    numbers = (torch.arange(TOKENS) + padding + 1).expand(TEXTS, -1) if padding is not None else None
    changed_positions = [{"position_ids": numbers}] if padding is not None else []
    for changes in [*changed_types, *changed_positions, {"attention_mask": None}]:
        seen(family, logits, logits_of(model, **changes), changes)
    write(folder, tokens=tokens.tolist(), types=types.tolist(), lens=LENS, logits=to_json(logits, exact=False))


bert = {"vocab_size": 37, "hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 28,
        "max_position_embeddings": 13, "type_vocab_size": 2, "layer_norm_eps": 1e-3}
bert_model("bert", bert, [{"hidden_act": "relu"}, {"layer_norm_eps": 0.5}])
# A head of its own.
bert_model("bert_untied", bert | {"vocab_size": 31, "hidden_act": "gelu_new", "tie_word_embeddings": False},
           [{"hidden_act": "relu"}])

bert_model("roberta", bert | {"vocab_size": 39, "type_vocab_size": 1, "pad_token_id": 1, "hidden_act": "relu",
                              "max_position_embeddings": 15}, [{"layer_norm_eps": 0.5}, {"hidden_act": "gelu"}],
           (RobertaForMaskedLM, RobertaConfig), num_types=1, first_token=2, padding=1)
bert_model("distilbert", {"vocab_size": 37, "dim": 20, "n_layers": 2, "n_heads": 4, "hidden_dim": 28,
                          "max_position_embeddings": 13}, [{"activation": "relu"}],
           (DistilBertForMaskedLM, DistilBertConfig), num_types=0)
bert_model("electra", bert | {"vocab_size": 37, "embedding_size": 20, "hidden_act": "relu"},
           [{"layer_norm_eps": 0.5}, {"hidden_act": "gelu"}], (ElectraForMaskedLM, ElectraConfig))


def bert_encoder(family, settings):
    """A BERT without a head, whose names have no prefix; the features of texts and the mean of each, of length 1."""
    folder = FOLDER / family
    model = filled(BertModel(config_of(BertConfig, settings)), family, 1.0)
    save(model, folder)
    tokens = tokens_of(family, settings["vocab_size"])
    types = (draw(f"{family}/types", TEXTS, TOKENS) > 0).long()
    mask = attended(LENS, TOKENS)
    model = BertModel.from_pretrained(folder, attn_implementation="eager").double()
    with torch.no_grad():
        features = model(input_ids=tokens, attention_mask=mask, token_type_ids=types).last_hidden_state
    means = (features * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    means = torch.nn.functional.normalize(means, dim=1)
    write(folder, tokens=tokens.tolist(), types=types.tolist(), lens=LENS, logits=to_json(features, exact=False),
          means=to_json(means, exact=False))


bert_encoder("bert_encoder", bert | {"vocab_size": 29})


def alone(family, model_kind, config_kind, settings, **factors):
    """A model saved without a head, and the features of texts."""
    folder = FOLDER / family
    model = scaled(filled(model_kind(config_of(config_kind, settings)), family, 1.0), **factors)
    save(model, folder)
    tokens = tokens_of(family, settings["vocab_size"])
    model = model_kind.from_pretrained(folder, attn_implementation="eager").double()
    with torch.no_grad():
        features = model(input_ids=tokens, attention_mask=attended(LENS, TOKENS)).last_hidden_state
    write(folder, tokens=tokens.tolist(), types=torch.zeros_like(tokens).tolist(), lens=LENS,
          logits=to_json(features, exact=False))


alone("llama_alone", LlamaModel, LlamaConfig, llama)


TARGET_ROWS, GENERATED = 6, 5


def filled_translator(model, family, factors):
    """The model with drawn parameters, those that have a part of a name multiplied, and a drawn bias of the logits. The
    tables of positions of `marian` are drawn, too, and in its file."""
    model = scaled(filled(model, family, 1.0), **factors)
    with torch.no_grad():
        for module in model.modules():
            # Sines and cosines, which are no parameters.
            if hasattr(module, "create_weight") and family != "marian":
                module.weight.copy_(module.create_weight())
        if hasattr(model, "final_logits_bias"):
            bias = model.final_logits_bias
            bias.copy_(draw(f"{family}/final_logits_bias", *bias.shape, std=0.3))
    return model


# Positions, and the text that is read, matter as much as the tokens so far.
OF_T5 = {"relative_attention_bias": 2.0, "shared": 2.0}
OF_BART = {"v_proj.weight": 2.0, "out_proj.weight": 2.0, "fc": 2.0, "bias": 0.1, "embed_positions": 4.0}


# The end and padding of beam searches, by which texts of several lengths are found.
SEARCHES = {"marian_apart": [(29, 23), (3, 29), (17, 29), (23, 29)]}


def beams_of(family, model, tokens):
    """The best texts of beam searches: long ones gain or lose, and a search ends early or late."""

    def found(end, pad, **settings):
        of = {"num_beams": 4, "max_new_tokens": 9, "length_penalty": 1.0, "early_stopping": False,
              "forces_end": True, "renormalizes": True, "repetition_penalty": 1.0, "no_repeat_ngram_size": 0,
              "min_new_tokens": 0} | settings
        repetition = {name: of[name] for name in ("repetition_penalty", "no_repeat_ngram_size", "min_new_tokens")}
        config = transformers.GenerationConfig(
            num_beams=of["num_beams"], max_length=1 + of["max_new_tokens"], length_penalty=of["length_penalty"],
            early_stopping=of["early_stopping"], renormalize_logits=of["renormalizes"], bad_words_ids=[[pad]],
            forced_eos_token_id=end if of["forces_end"] else None, eos_token_id=end, pad_token_id=pad,
            decoder_start_token_id=0, **repetition)
        texts = model.generate(input_ids=tokens, attention_mask=attended(LENS, TOKENS), generation_config=config)
        texts = [[token for token in text[1:] if token != pad] for text in texts.tolist()]
        return of | {"end": end, "pad": pad, "texts": texts}

    model.generation_config.forced_eos_token_id = None  # Or it counts where the settings have none.
    changes = [{}, {"length_penalty": 0.0}, {"length_penalty": 2.0}, {"length_penalty": -1.0}, {"early_stopping": True},
               {"forces_end": False}, {"renormalizes": False}, {"num_beams": 2}, {"max_new_tokens": 3},
               # What changes probabilities before they are normalized, and before the end is forced.
               {"repetition_penalty": 1.5}, {"no_repeat_ngram_size": 1}, {"no_repeat_ngram_size": 2},
               {"min_new_tokens": 6}, {"repetition_penalty": 0.7, "renormalizes": False}]
    searches = SEARCHES.get(family, [])
    beams = [found(end, pad, **change) for end, pad in searches for change in changes]
    lengths = {len(text) for of in beams for text in of["texts"]}
    assert not searches or len(lengths) > 3, f"{family}: texts of the lengths {lengths}"
    return beams


def translator(family, settings, others, kinds, factors, has_own_head=False):
    """A model that reads one text and writes another; a T5 with a head of its own is of version 1.1, whose config says
    so in a field that is not written today."""
    folder = FOLDER / family
    model_kind, config_kind = kinds
    model = model_kind(config_of(config_kind, settings))
    if has_own_head:
        model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.lm_head.weight))
    model = filled_translator(model, family, factors)
    save(model, folder)
    if family == "marian":  # The tables of positions, as in the files of OPUS-MT; version 5 leaves them out.
        tables = {name: table for name, table in model.state_dict().items() if "embed_positions" in name}
        file = folder / "model.safetensors"
        save_file(load_file(file) | tables, file, metadata={"format": "pt"})
    if has_own_head:
        config = json.loads((folder / "config.json").read_text())
        config.pop("scale_decoder_outputs", None)
        settings = settings | {"tie_word_embeddings": False}
        (folder / "config.json").write_text(json.dumps(config | settings, indent=2) + "\n")
    tokens = tokens_of(family, settings["vocab_size"])
    target_vocab_size = settings.get("decoder_vocab_size", settings["vocab_size"])
    targets = tokens_of(f"{family}/targets", target_vocab_size)[:, :TARGET_ROWS].clone()
    targets[:, 0] = 0

    def logits_of(model, tokens=tokens, mask=attended(LENS, TOKENS), targets=targets):
        with torch.no_grad():
            return model(input_ids=tokens, attention_mask=mask, decoder_input_ids=targets, use_cache=False).logits

    def loaded(**changes):
        changed = config_of(config_kind, settings | changes) if changes else None
        return model_kind.from_pretrained(
            folder, config=changed, attn_implementation="eager").double()

    def change(logits, changed, what):
        share = ((changed - logits).abs().max() / logits.abs().max()).item()
        assert share > SEEN, f"{family}: {what} changes the logits by {share}"

    model = loaded()
    embedding = model.get_decoder().embed_tokens
    assert (model.lm_head.weight is embedding.weight) != has_own_head
    logits = logits_of(model)
    for other in others:
        change(logits, logits_of(loaded(**other)), other)
    change(logits, logits_of(model, mask=None), "a mask")

    with torch.no_grad():
        encoded = model.get_encoder()(input_ids=tokens, attention_mask=attended(LENS, TOKENS)).last_hidden_state

    generated = torch.zeros(TEXTS, 1, dtype=torch.long)
    for _ in range(GENERATED):
        best = logits_of(model, targets=generated)[:, -1].topk(2)
        margin = (best.values[:, 0] - best.values[:, 1]).min() / logits.abs().max()
        assert margin > 1e-3, f"{family}: two tokens are as likely, by {margin}"
        generated = torch.cat([generated, best.indices[:, :1]], dim=1)
    assert generated[0].tolist() != generated[1].tolist(), f"{family}: {generated}"
    write(folder, tokens=tokens.tolist(), lens=LENS, targets=targets.tolist(), logits=to_json(logits, exact=False),
          encoded=to_json(encoded, exact=False), generated=generated[:, 1:].tolist(),
          beams=beams_of(family, model, tokens))


t5 = {"vocab_size": 41, "d_model": 16, "d_kv": 5, "d_ff": 18, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 3,
      "relative_attention_num_buckets": 8, "relative_attention_max_distance": 9, "layer_norm_epsilon": 1e-3}
T5_KINDS = (T5ForConditionalGeneration, T5Config)
translator("t5", t5, [{"feed_forward_proj": "gelu"}, {"layer_norm_epsilon": 0.5},
                      {"relative_attention_max_distance": 30}, {"tie_word_embeddings": False}], T5_KINDS, OF_T5)
# Version 1.1: a gate, a head of its own.
translator("t5_gated", t5 | {"vocab_size": 43, "feed_forward_proj": "gated-gelu"},
           [{"feed_forward_proj": "gated-silu"}, {"tie_word_embeddings": True}], T5_KINDS, OF_T5, has_own_head=True)
translator("mt5", t5 | {"vocab_size": 37, "feed_forward_proj": "gated-gelu"}, [{"feed_forward_proj": "gated-silu"}],
           (MT5ForConditionalGeneration, MT5Config), OF_T5, has_own_head=True)
alone("t5_encoder", T5EncoderModel, T5Config, t5 | {"vocab_size": 31}, relative_attention_bias=2.0, shared=2.0)

bart = {"vocab_size": 37, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 18, "decoder_ffn_dim": 22, "max_position_embeddings": 13,
        "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 0,
        "forced_eos_token_id": 2}
CHANGES = [{"activation_function": "relu"}, {"scale_embedding": True}]
translator("bart", bart, CHANGES, (BartForConditionalGeneration, BartConfig), OF_BART)
translator("mbart", bart | {"vocab_size": 39}, CHANGES, (MBartForConditionalGeneration, MBartConfig),
           OF_BART)
marian = bart | {"vocab_size": 41, "activation_function": "swish", "scale_embedding": True}
MARIAN_KINDS = (MarianMTModel, MarianConfig)
translator("marian", marian, [{"activation_function": "relu"}, {"scale_embedding": False}], MARIAN_KINDS,
           OF_BART)
# Each language has its tokens.
translator("marian_apart", marian | {"decoder_vocab_size": 35, "share_encoder_decoder_embeddings": False}, [],
           MARIAN_KINDS, OF_BART | {"fc": 1.0, "encoder_attn.v": 3.0})


# ---- sentence-transformers: modules after a BERT, and the vectors that `encode` makes of texts

MAX_TOKENS = 9
WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"] + [f"w{number}" for number in range(25)]
# The last one is longer than `MAX_TOKENS`.
SENTENCES = ["w3 w1 w4", "w1 w5 w9 w2 w6", "w20", " ".join(f"w{number}" for number in range(11))]
MODES = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]


def tokenizer():
    """A tokenizer of words."""
    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]",
                                   unk_token="[UNK]")


def sentences():
    """Two layers after the concatenation of all poolings, with `Normalize` between them and at the end; beside the
    vectors those of each pooling alone, without other modules."""
    folder = FOLDER / "sentences"
    settings = bert | {"vocab_size": len(WORDS), "hidden_size": 12, "intermediate_size": 14}
    with TemporaryDirectory() as base:
        filled(BertModel(config_of(BertConfig, settings)), "sentences", 1.0).save_pretrained(base)
        tokenizer().save_pretrained(base)
        transformer = Transformer(base, max_seq_length=MAX_TOKENS)
    size = settings["hidden_size"]
    first = filled(Dense(size * len(MODES), 10), "sentences/first", 1.0)
    second = filled(Dense(10, 7, bias=False, activation_function=torch.nn.GELU()), "sentences/second", 1.0)
    model = SentenceTransformer(modules=[transformer, Pooling(size, pooling_mode=MODES), first, Normalize(), second,
                                         Normalize()], device="cpu", prompts={"greeting": "w7 w8 "})
    shutil.rmtree(folder, ignore_errors=True)
    model.save(str(folder), create_model_card=False)
    for path in folder.rglob("*"):  # Its files are read by their owner alone.
        path.chmod(0o755 if path.is_dir() else 0o644)
    model = SentenceTransformer(str(folder), device="cpu").double()
    tokens = [tokenizer()(text, truncation=True, max_length=MAX_TOKENS)["input_ids"] for text in SENTENCES]
    vectors = torch.tensor(model.encode(SENTENCES))

    def of(*modules):
        alone = SentenceTransformer(modules=[model[0], *modules], device="cpu").double()
        return torch.tensor(alone.encode(SENTENCES))

    poolings = {mode: of(Pooling(size, pooling_mode=mode)) for mode in MODES}
    for other in [of(*list(model)[1:3], *list(model)[4:]), of(*list(model)[1:-1])]:
        assert (other - vectors).abs().max() > SEEN, "sentences: a Normalize is not seen"
    write(folder, tokens=tokens, vectors=to_json(vectors, exact=False),
          poolings={mode: to_json(vectors, exact=False) for mode, vectors in poolings.items()})


sentences()
