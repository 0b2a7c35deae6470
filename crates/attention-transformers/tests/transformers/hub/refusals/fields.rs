//! Fields of `config.json` that are refused, or whose model does not fit its tensors.

use attention_tests::assert_says;
use serde_json::{Value, json};

use super::super::folder::{FolderCopy, original};
use super::{load, refuses};

/// A family, a field, its value, and what the error says of the field.
const FIELDS: &str = r#"
llama | num_key_value_heads | 3 | expected a divisor of `num_attention_heads`, 4, got 3
gpt2 | n_head | 3 | expected a divisor of `n_embd`, 20, got 3
bloom | n_head | 4 | expected a divisor of `hidden_size`, 18, got 4
bloom | num_attention_heads | 2 | expected 3, as `n_head` is the same size, got 2
bert | num_attention_heads | 3 | expected a divisor of `hidden_size`, 20, got 3
qwen3 | head_dim | 5 | expected an even number, for pairs of features, got 5

llama | hidden_size | "24" | expected a size in 1 ..= 2147483647, got "24"
llama | num_hidden_layers | 0 | expected a size in 1 ..= 2147483647, got 0
gpt2 | n_embd | 20.5 | expected a size in 1 ..= 2147483647, got 20.5
bloom | vocab_size | -59 | expected a size in 1 ..= 2147483647, got -59
t5 | d_kv | 0 | expected a size in 1 ..=
gemma2 | head_dim | null | expected a size, got none
gemma3 | sliding_window | null | expected a size, got none
bert | type_vocab_size | null | expected a size, got none
gemma2 | rms_norm_eps | 0 | expected a number above 0, got 0
bert | layer_norm_eps | 0 | expected a number above 0, got 0
gemma2 | query_pre_attn_scalar | [3] | expected a number above 0, got a list
qwen3 | attention_bias | "no" | expected true or false, got "no"
t5 | tie_word_embeddings | "no" | expected true or false, got "no"
gpt2 | attn_pdrop | 1.0 | expected a probability in [0, 1), got 1.0
bert | hidden_dropout_prob | -0.5 | expected a probability in [0, 1), got -0.5
llama | hidden_act | {} | expected a string, got an object
llama | rope_parameters | true | expected an object, got true

llama | num_hidden_layers | 2000000000 | expected at most 10000 layers, got 2000000000
gpt2 | n_layer | 2000000000 | expected at most 10000 layers, got 2000000000
bloom | n_layer | 2000000000 | expected at most 10000 layers, got 2000000000
bert | num_hidden_layers | 10001 | expected at most 10000 layers, got 10001
t5 | num_layers | 10001 | expected at most 10000 layers, got 10001
t5 | num_decoder_layers | 10001 | expected at most 10000 layers, got 10001
t5 | relative_attention_num_buckets | 1000000000 | expected at most 5592405, for 3 heads, got 1000000000

llama | hidden_act | "mish" | expected "relu" or "gelu" or
llama | hidden_act | "relu2" | expected "relu" or "gelu" or
bert | hidden_act | "quick_gelu" | expected "relu" or "gelu" or
bert | hidden_act | "tanh" | expected "relu" or "gelu" or
t5 | feed_forward_proj | "gated-tanh" | expected "relu" or "gated-gelu" or "gated-silu", got "gated-tanh"
llama | quantization_config | {} | expected none, since parameters that are packed
llama | compression_config | {} | expected none, since parameters that are packed
gpt2 | add_cross_attention | true | expected false, since there is no memory
llama | no_rope_layers | [1, 0] | expected none, since the models here do not compute what it changes, got a list
llama | embedding_multiplier | 12.0 | expected none, since the models here do not compute what it changes, got 12.0
qwen3 | num_experts | 8 | expected none, since the models here do not compute what it changes, got 8
gpt2 | use_parallel_residual | true | expected none, since the models here do not compute what it changes, got true
opt | do_layer_norm_before | false | expected true, as most models of the family have it, got false
opt | word_embed_proj_dim | 16 | expected `hidden_size`, 20, got 16
opt | _remove_final_layer_norm | true | expected false, since a normalization follows the last layer
distilbert | n_heads | 3 | expected a divisor of `dim`, 20, got 3
distilbert | activation | "tanh" | expected "relu" or "gelu" or
electra | embedding_size | 16 | expected `hidden_size`, 20, got 16
roberta | max_position_embeddings | 2 | expected more than 2, the row of the first position, got 2
bert | add_cross_attention | true | expected false, since there is no memory
bert | is_decoder | true | expected false, since rows attend to all rows
bert | position_embedding_type | "relative_key" | expected "absolute", got "relative_key"
bloom | apply_residual_connection_post_layernorm | true | expected false, since the rows themselves go around
gemma2 | use_bidirectional_attention | true | expected false, since rows attend to those up to themselves
qwen3 | is_causal | false | expected true, since rows attend to those up to themselves, got false
gpt2 | is_causal | false | expected true, since rows attend to those up to themselves, got false
gemma3 | attn_logit_softcapping | 50.0 | expected none, since the family has no soft-cap on scores, got 50.0
llama | partial_rotary_factor | 0.5 | expected 1, as the family has it, got 0.5
qwen3 | layer_types | ["full_attention"] | expected one for each of 2 layers, got 1
qwen3 | layer_types | ["full_attention", "linear"] | expected "sliding_attention" or "full_attention", got "linear"
bart | is_causal | false | expected true, since rows of the decoder attend to those up to themselves, got false
t5 | is_causal | false | expected true, since rows of the decoder attend to those up to themselves, got false
t5 | dense_act_fn | "silu" | expected "relu", got "silu"
t5_gated | dense_act_fn | "gelu" | expected "gelu_new", got "gelu"
t5 | is_gated_act | true | expected false, as in `feed_forward_proj`, got true
llama | head_dim | 65538 | expected at most 65536, got 65538
gemma2 | attn_logit_softcapping | 1e300 | expected a number in the range of f32, got
gemma2 | final_logit_softcapping | 1e-300 | expected a number in the range of f32, got
t5 | relative_attention_num_buckets | 2 | expected an even number, at least 4, got 2
t5 | relative_attention_num_buckets | 7 | expected an even number, at least 4, got 7
marian | d_model | 15 | expected an even number, for sines and cosines, got 15
marian | max_position_embeddings | 10001 | expected at most 10000, got 10001
bart | decoder_attention_heads | 3 | expected a divisor of `d_model`, 16, got 3
bart | encoder_layers | 10001 | expected at most 10000 layers, got 10001
t5 | relative_attention_max_distance | 4 | expected more than half of `relative_attention_num_buckets`, 4, got 4
"#;

/// The same of angles, `rope_parameters`, and what the error says after that name.
const ANGLES: &str = r#"
llama | {"rope_type": "proportional"} | rope_type`: expected KNOWN, got "proportional"
llama | {"type": "mrope"} | type`: expected KNOWN, got "mrope"
llama | {"rope_type": "dynamic"} | factor`: expected a number above 0, got none
llama | {"rope_type": "longrope"} | short_factor`: expected a list of 3 numbers above 0, got none
llama | {"type": "su", "short_factor": [1, 2]} | short_factor`: expected a list of 3 numbers above 0, got a list
llama | {"rope_type": "longrope", "short_factor": [1, 0, 1]} | short_factor`: expected a list of 3 numbers above 0
llama | {"rope_type": "longrope", "short_factor": [1, 1, 1], "original_max_position_embeddings": 1} \
    | original_max_position_embeddings`: expected more than 1 position, got 1
llama | {"partial_rotary_factor": 0.5} | partial_rotary_factor`: expected 1, as the family has it, got 0.5
phi3 | {"partial_rotary_factor": 0.1} \
    | partial_rotary_factor`: expected a part of the 8 features of a head, for pairs of them, got 0.1
llama | {"rope_type": "yarn"} | factor`: expected a number above 0, got none
llama | {"rope_type": "linear"} | factor`: expected a number above 0, got none
llama | {"rope_theta": -1} | rope_theta`: expected a number above 0, got -1
llama | {"rope_type": "llama3", "factor": 2, "low_freq_factor": 4, "high_freq_factor": 1} \
    | high_freq_factor`: expected more than `low_freq_factor`, 4, got 1
llama | {"rope_type": "yarn", "factor": 2, "beta_fast": 1, "beta_slow": 2} \
    | beta_fast`: expected at least `beta_slow`, 2, got 1
qwen3 | {"rope_type": "yarn", "factor": 2, "rope_theta": 1} | rope_theta`: expected a number above 1, got 1
llama | {"llama_4_scaling_beta": 0.1} \
    | llama_4_scaling_beta`: expected none, since queries are not scaled by their positions, got 0.1
qwen3 | {"full_attention": {"rope_type": "default"}} | full_attention`: expected none, since all layers
gemma3 | {"rope_type": "default"} | rope_type`: expected none, since each kind of layer has its own
gemma3 | {"sliding_attention": {"rope_type": "mrope"}} | sliding_attention.rope_type`: expected KNOWN, got "mrope"
"#;

/// A family, a field, its value, and what the error says of the tensors, since the field is right by itself.
const SIZES: &str = r#"
llama | intermediate_size | 19 | `model.layers.0.mlp.gate_proj.weight`: expected the shape [19, 24], got [20, 24]
qwen3 | head_dim | 8 | `model.layers.0.self_attn.q_proj.weight`: expected the shape [32, 20], got [24, 20]
gemma2 | vocab_size | 42 | `model.embed_tokens.weight`: expected the shape [42, 20], got [43, 20]
gpt2 | n_positions | 14 | `transformer.wpe.weight`: expected the shape [14, 20], got [13, 20]
gpt2 | n_inner | 27 | `transformer.h.0.mlp.c_fc.weight`: expected the shape [20, 27], got [20, 28]
bloom | hidden_size | 21 | `transformer.word_embeddings.weight`: expected the shape [59, 21], got [59, 18]
bert | type_vocab_size | 3 \
    | `bert.embeddings.token_type_embeddings.weight`: expected the shape [3, 20], got [2, 20]
t5 | d_kv | 6 | `encoder.block.0.layer.0.SelfAttention.q.weight`: expected the shape [18, 16], got [15, 16]
t5 | relative_attention_num_buckets | 6 \
    | `encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight`: expected the shape [6, 3], got [8, 3]

gpt2 | n_layer | 1 | expected no tensor `transformer.h.1.attn.c_attn.bias`, for which the model
gpt2 | n_layer | 3 | expected a tensor `transformer.h.2.attn.c_attn.weight`, found
llama | mlp_bias | true | expected a tensor `model.layers.0.mlp.gate_proj.bias`, found
bert | num_hidden_layers | 1 \
    | expected no tensor `bert.encoder.layer.1.attention.output.LayerNorm.bias`, for which the model of \
    `config.json` has no place, nor for 15 others
bert | num_hidden_layers | 3 | expected a tensor `bert.encoder.layer.2.attention.self.query.weight`
bert | tie_word_embeddings | false | expected a tensor `cls.predictions.decoder.weight`
t5 | num_decoder_layers | null | expected no tensor `decoder.block.2.layer.0.SelfAttention.k.weight`
distilbert | n_layers | 3 | expected a tensor `distilbert.transformer.layer.2.attention.q_lin.weight`
phi3 | num_key_value_heads | 4 | `model.layers.0.self_attn.qkv_proj.weight`: expected the shape [96, 32], got [64, 32]
bart | decoder_layers | 1 | expected no tensor `model.decoder.layers.1.encoder_attn.k_proj.bias`, for which the model
bart | decoder_ffn_dim | 18 | `model.decoder.layers.0.fc1.weight`: expected the shape [18, 16], got [22, 16]
bart | max_position_embeddings | 14 \
    | `model.decoder.embed_positions.weight`: expected the shape [16, 16], got [15, 16]
mbart | model_type | "bart" | expected no tensor `model.decoder.layer_norm.bias`, for which the model
marian | share_encoder_decoder_embeddings | false | expected a tensor `model.decoder.embed_tokens.weight`
t5 | num_layers | 3 | expected a tensor `encoder.block.2.layer.0.SelfAttention.q.weight`
"#;

/// The lines of a table, of `N` columns each; a line may go on after a backslash.
fn table<const N: usize>(text: &str) -> Vec<[String; N]> {
    let joined = text.replace("\\\n    ", "");
    let lines = joined.lines().filter(|line| !line.is_empty());
    let columns = |line: &str| -> Vec<String> { line.splitn(N, " | ").map(String::from).collect() };
    let rows = lines.map(|line| columns(line).try_into().unwrap());
    rows.collect()
}

fn with_field(family: &str, field: &str, value: &str) -> FolderCopy {
    FolderCopy::with_field(family, field, serde_json::from_str(value).unwrap())
}

#[test]
fn fields_that_are_refused() {
    for [family, field, value, expected] in table(FIELDS) {
        let copy = with_field(&family, &field, &value);
        let file = "config.json";
        refuses(&family, &copy, file, &format!("`{field}`: {expected}"));
    }
}

/// Fields of other families, with the values that they have there and those that change nothing.
#[test]
fn fields_of_other_families() {
    for (field, changes, neutral) in [
        ("alibi", json!(true), json!(false)),
        ("attention_chunk_size", json!(8192), json!(null)),
        ("attention_multiplier", json!(0.0156), json!(1)),
        ("clip_qkv", json!(8.0), json!(null)),
        ("embedding_multiplier", json!(12.0), json!(1.0)),
        ("logit_scale", json!(0.0625), json!(1.0)),
        ("logits_scaling", json!(8.0), json!(1.0)),
        ("n_routed_experts", json!(64), json!(null)),
        ("no_rope_layer_interval", json!(4), json!(0)),
        ("no_rope_layers", json!([1, 1, 1, 0]), json!(null)),
        ("num_experts", json!(128), json!(0)),
        ("num_local_experts", json!(8), json!(0)),
        ("parallel_attn", json!(true), json!(false)),
        ("qk_layernorm", json!(true), json!(false)),
        ("residual_multiplier", json!(0.22), json!(1.0)),
        ("rope_interleave", json!(true), json!(false)),
        ("rope_interleaved", json!(true), json!(false)),
        ("rotary_pct", json!(0.25), json!(1.0)),
        ("scale_depth", json!(1.4), json!(1.0)),
        ("scale_emb", json!(12), json!(1)),
        ("use_parallel_residual", json!(true), json!(false)),
        ("use_qk_norm", json!(true), json!(false)),
    ] {
        let copy = FolderCopy::with_field("llama", field, changes);
        let expected = format!("`{field}`: expected none, since the models here do not compute");
        refuses("llama", &copy, "config.json", &expected);
        let copy = FolderCopy::with_field("llama", field, neutral);
        load("llama", copy.path()).unwrap();
    }
}

/// Families whose `model_type` was changed by hand to one that has the same names.
#[test]
fn architectures_of_other_families() {
    for other in ["HeliumForCausalLM", "Ernie4_5ForCausalLM"] {
        let copy = FolderCopy::with_field("llama", "architectures", json!([other]));
        let expected = "`architectures`: expected none with interleaved pairs of features, got";
        let expected = format!("{expected} \"{other}\"");
        refuses("llama", &copy, "config.json", &expected);
    }
}

#[test]
fn angles_that_are_not_known() {
    let known = r#""default" or "linear" or "yarn" or "llama3" or "dynamic" or "longrope""#;
    for [family, value, expected] in table(ANGLES) {
        let copy = with_field(&family, "rope_parameters", &value);
        let expected = expected.replace("KNOWN", known);
        let expected = format!("`rope_parameters.{expected}");
        refuses(&family, &copy, "config.json", &expected);
    }
}

#[test]
fn fields_that_do_not_fit_the_tensors() {
    for [family, field, value, expected] in table(SIZES) {
        let copy = with_field(&family, &field, &value);
        refuses(&family, &copy, "model.safetensors", &expected);
    }
}

#[test]
fn another_model() {
    const FAMILIES: &str = "llama qwen3 gemma2 gemma3 gpt2 bloom bert t5";
    let model_type = |family: &str| family.replace("gemma3", "gemma3_text");
    for family in FAMILIES.split(' ') {
        for other in FAMILIES.split(' ') {
            let found = load(family, &original(other));
            if family == other {
                found.unwrap();
                continue;
            }
            let error = found.unwrap_err().to_string();
            let expected = format!("`model_type`: expected \"{}\"", model_type(family));
            assert_says(&error, &expected);
            let got = format!(", got \"{}\"", model_type(other));
            assert!(error.ends_with(&got), "{error}");
        }
    }
}

/// Fields that are right, or missing, beside others.
#[test]
fn several_fields() {
    let refuses =
        |family, copy: &FolderCopy, expected| refuses(family, copy, "config.json", expected);
    let copy = FolderCopy::with_field("llama", "head_dim", Value::Null);
    copy.set("num_attention_heads", json!(10));
    let expected = "`num_attention_heads`: expected a divisor of `hidden_size`, 24, got 10";
    refuses("llama", &copy, expected);
    let copy = FolderCopy::with_field("bloom", "num_attention_heads", json!(4));
    copy.unset("n_head");
    let expected = "`num_attention_heads`: expected a divisor of `hidden_size`, 18, got 4";
    refuses("bloom", &copy, expected);
    let copy = FolderCopy::with_field("bloom", "slow_but_exact", json!(true));
    load("bloom", copy.path()).unwrap();
    copy.set("pretraining_tp", json!(2));
    let expected = "`slow_but_exact`: expected false, since with a `pretraining_tp` above 1";
    refuses("bloom", &copy, expected);
    // Tables of angles are as long as texts: a config alone takes neither all memory nor forever.
    let copy = FolderCopy::with_field("llama", "max_position_embeddings", json!(2_000_000_000));
    load("llama", copy.path()).unwrap();

    let copy = FolderCopy::with_field("t5_gated", "feed_forward_proj", json!("relu"));
    let expected = "`dense_act_fn`: expected \"relu\", got \"gelu_new\"";
    refuses("t5_gated", &copy, expected);
    copy.unset("dense_act_fn");
    copy.unset("is_gated_act");
    let error = load("t5_gated", copy.path()).unwrap_err().to_string();
    assert_says(
        &error,
        "expected a tensor `encoder.block.0.layer.1.DenseReluDense.wi.weight`",
    );

    let copy = FolderCopy::of("gemma2");
    copy.unset("final_logit_softcapping");
    let expected = "`final_logit_softcapping`: expected a number above 0 or null, got none";
    refuses("gemma2", &copy, expected);
    copy.unset("model_type");
    refuses("gemma2", &copy, "`model_type`: expected a string, got none");
    copy.write("config.json", b"[1, 2]");
    refuses("gemma2", &copy, "expected an object in JSON, got a list");
    copy.write("config.json", b"{");
    refuses("gemma2", &copy, "expected an object in JSON: EOF");
}
