//! Fields of `config.json` that are refused.

use serde_json::{Value, json};

use super::super::folder::{FolderCopy, original};
use super::{load, refuses};

/// The model of a family is refused for a value in `config.json`.
fn refuses_field(family: &str, field: &str, value: Value, expected: &str) {
    let copy = FolderCopy::with_field(family, field, value);
    refuses(
        family,
        &copy,
        "config.json",
        &format!("`{field}`: {expected}"),
    );
}

#[test]
fn another_model() {
    let families = [
        ("llama", "llama"),
        ("qwen3", "qwen3"),
        ("gemma2", "gemma2"),
        ("gemma3", "gemma3_text"),
        ("gpt2", "gpt2"),
        ("bloom", "bloom"),
        ("gpt_oss", "gpt_oss"),
    ];
    for (family, model_type) in families {
        for (other, other_type) in families {
            let found = load(family, &original(other));
            if family == other {
                found.unwrap();
                continue;
            }
            let error = found.unwrap_err().to_string();
            let expected = format!("`model_type`: expected \"{model_type}\", got \"{other_type}\"");
            assert!(error.ends_with(&expected), "{error}");
        }
    }
}

#[test]
fn sizes_that_do_not_divide() {
    refuses_field(
        "llama",
        "num_key_value_heads",
        json!(3),
        "expected a divisor of `num_attention_heads`, 4, got 3",
    );
    refuses_field(
        "gpt2",
        "n_head",
        json!(3),
        "expected a divisor of `n_embd`, 20, got 3",
    );
    refuses_field(
        "bloom",
        "n_head",
        json!(4),
        "expected a divisor of `hidden_size`, 18, got 4",
    );
    refuses_field(
        "qwen3",
        "head_dim",
        json!(5),
        "expected an even number, for pairs of features, got 5",
    );
    let copy = FolderCopy::with_field("llama", "head_dim", Value::Null);
    copy.change_json("config.json", |config| {
        config.insert("num_attention_heads".into(), json!(10));
    });
    let expected = "`num_attention_heads`: expected a divisor of `hidden_size`, 24, got 10";
    refuses("llama", &copy, "config.json", expected);
    let copy = FolderCopy::with_field("bloom", "num_attention_heads", json!(4));
    copy.change_json("config.json", |config| {
        config.remove("n_head");
    });
    let expected = "`num_attention_heads`: expected a divisor of `hidden_size`, 18, got 4";
    refuses("bloom", &copy, "config.json", expected);
    let copy = FolderCopy::with_field("bloom", "num_attention_heads", json!(2));
    let expected = "`num_attention_heads`: expected 3, as `n_head` is the same size, got 2";
    refuses("bloom", &copy, "config.json", expected);
}

#[test]
fn fields_of_another_kind() {
    let size = "expected a size in 1 ..= 2147483647, got";
    refuses_field(
        "llama",
        "hidden_size",
        json!("24"),
        &format!("{size} \"24\""),
    );
    refuses_field("llama", "num_hidden_layers", json!(0), &format!("{size} 0"));
    refuses_field("gpt2", "n_embd", json!(20.5), &format!("{size} 20.5"));
    refuses_field("bloom", "vocab_size", json!(-59), &format!("{size} -59"));
    refuses_field(
        "gemma2",
        "head_dim",
        Value::Null,
        "expected a size, got none",
    );
    refuses_field(
        "gemma3",
        "sliding_window",
        Value::Null,
        "expected a size, got none",
    );
    refuses_field(
        "gemma2",
        "rms_norm_eps",
        json!(0),
        "expected a number above 0, got 0",
    );
    refuses_field(
        "gemma2",
        "query_pre_attn_scalar",
        json!([3]),
        "expected a number above 0, got a list",
    );
    refuses_field(
        "qwen3",
        "attention_bias",
        json!("no"),
        "expected true or false, got \"no\"",
    );
    refuses_field(
        "gpt2",
        "attn_pdrop",
        json!(1.0),
        "expected a probability in [0, 1), got 1.0",
    );
    refuses_field(
        "llama",
        "hidden_act",
        json!({}),
        "expected a string, got an object",
    );
    refuses_field(
        "llama",
        "rope_parameters",
        json!(true),
        "expected an object, got true",
    );
    let copy = FolderCopy::of("gemma2");
    copy.change_json("config.json", |config| {
        config.remove("final_logit_softcapping");
    });
    let expected = "`final_logit_softcapping`: expected a number above 0 or null, got none";
    refuses("gemma2", &copy, "config.json", expected);
    copy.change_json("config.json", |config| {
        config.remove("model_type");
    });
    refuses(
        "gemma2",
        &copy,
        "config.json",
        "`model_type`: expected a string, got none",
    );
    copy.write("config.json", b"[1, 2]");
    refuses(
        "gemma2",
        &copy,
        "config.json",
        "expected an object in JSON, got a list",
    );
    copy.write("config.json", b"{");
    refuses(
        "gemma2",
        &copy,
        "config.json",
        "expected an object in JSON: EOF",
    );
}

/// A config alone takes neither all memory nor forever.
#[test]
fn sizes_beyond_reason() {
    let number = json!(2_000_000_000);
    for (family, field) in [
        ("llama", "num_hidden_layers"),
        ("gpt2", "n_layer"),
        ("bloom", "n_layer"),
        ("gpt_oss", "num_hidden_layers"),
    ] {
        let expected = "expected at most 10000 layers, got 2000000000";
        refuses_field(family, field, number.clone(), expected);
    }
    // Tables of angles are as long as texts.
    let copy = FolderCopy::with_field("llama", "max_position_embeddings", number);
    super::load("llama", copy.path()).unwrap();
}

#[test]
fn requests_that_are_not_computed() {
    refuses_field(
        "llama",
        "hidden_act",
        json!("mish"),
        "expected \"relu\" or \"gelu\" or",
    );
    refuses_field(
        "llama",
        "quantization_config",
        json!({}),
        "expected none, since parameters that are packed",
    );
    refuses_field(
        "gpt2",
        "add_cross_attention",
        json!(true),
        "expected false, since there is no memory",
    );
    let expected = "expected false, since the rows themselves go around sublayers, got true";
    refuses_field(
        "bloom",
        "apply_residual_connection_post_layernorm",
        json!(true),
        expected,
    );
    let copy = FolderCopy::with_field("bloom", "slow_but_exact", json!(true));
    super::load("bloom", copy.path()).unwrap();
    copy.change_json("config.json", |config| {
        config.insert("pretraining_tp".into(), json!(2));
    });
    let expected = "`slow_but_exact`: expected false, since with a `pretraining_tp` above 1";
    refuses("bloom", &copy, "config.json", expected);
    let expected = "expected false, since rows attend to those up to themselves, got true";
    refuses_field(
        "gemma2",
        "use_bidirectional_attention",
        json!(true),
        expected,
    );
    let expected = "expected none, since the family has no soft-cap on scores, got 50.0";
    refuses_field("gemma3", "attn_logit_softcapping", json!(50.0), expected);
    let expected = "expected 1, as the family has it, got 0.5";
    refuses_field("llama", "partial_rotary_factor", json!(0.5), expected);
    refuses_field(
        "qwen3",
        "layer_types",
        json!(["full_attention"]),
        "expected one for each of 2 layers, got 1",
    );
    let types = json!(["full_attention", "linear_attention"]);
    let expected = "expected \"sliding_attention\" or \"full_attention\", got \"linear_attention\"";
    refuses_field("qwen3", "layer_types", types, expected);
    let expected = "expected more than 1, as layer 1 is asked for, got 1";
    refuses_field("gpt_oss", "num_hidden_layers", json!(1), expected);
}

#[test]
fn angles_that_are_not_known() {
    let refuses_angles = |family, angles: Value, expected: &str| {
        let copy = FolderCopy::with_field(family, "rope_parameters", angles);
        refuses(
            family,
            &copy,
            "config.json",
            &format!("`rope_parameters.{expected}"),
        );
    };
    let known = "expected \"default\" or \"linear\" or \"yarn\" or \"llama3\", got";
    for kind in ["dynamic", "longrope"] {
        let expected = format!("rope_type`: {known} \"{kind}\"");
        refuses_angles(
            "llama",
            json!({ "rope_type": kind, "factor": 2.0 }),
            &expected,
        );
    }
    refuses_angles(
        "llama",
        json!({ "type": "su" }),
        &format!("type`: {known} \"su\""),
    );
    refuses_angles(
        "llama",
        json!({ "rope_type": "linear" }),
        "factor`: expected a number above 0, got none",
    );
    refuses_angles(
        "llama",
        json!({ "rope_theta": -1 }),
        "rope_theta`: expected a number above 0, got -1",
    );
    let turns =
        json!({ "rope_type": "llama3", "factor": 2, "low_freq_factor": 4, "high_freq_factor": 1 });
    refuses_angles(
        "llama",
        turns,
        "high_freq_factor`: expected more than `low_freq_factor`, 4, got 1",
    );
    let turns = json!({ "rope_type": "yarn", "factor": 2, "beta_fast": 1, "beta_slow": 2 });
    refuses_angles(
        "gpt_oss",
        turns,
        "beta_fast`: expected at least `beta_slow`, 2, got 1",
    );
    let base = json!({ "rope_type": "yarn", "factor": 2, "rope_theta": 1 });
    refuses_angles(
        "qwen3",
        base,
        "rope_theta`: expected a number above 1, got 1",
    );
    let nested = json!({ "full_attention": { "rope_type": "default" } });
    refuses_angles(
        "qwen3",
        nested,
        "full_attention`: expected none, since all layers",
    );
    let flat = json!({ "rope_type": "default" });
    refuses_angles(
        "gemma3",
        flat,
        "rope_type`: expected none, since each kind of layer has its own",
    );
    let nested = json!({ "sliding_attention": { "rope_type": "su" } });
    refuses_angles(
        "gemma3",
        nested,
        &format!("sliding_attention.rope_type`: {known} \"su\""),
    );
}
