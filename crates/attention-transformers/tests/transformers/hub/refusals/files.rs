//! Files of parameters that are refused.

use serde_json::{Value, json};

use super::super::folder::FolderCopy;
use super::{load, refuses};

#[test]
fn tensors_that_are_missing_or_too_many() {
    const FILE: &str = "model.safetensors";
    let cases = [
        ("llama", "model.norm.weight"),
        ("qwen3", "model.layers.1.self_attn.q_norm.weight"),
        ("gemma2", "model.layers.0.pre_feedforward_layernorm.weight"),
        ("gemma3", "model.layers.2.post_attention_layernorm.weight"),
        ("gpt2", "transformer.h.1.attn.c_attn.bias"),
        ("bloom", "transformer.word_embeddings_layernorm.bias"),
        ("gpt_oss", "model.layers.1.self_attn.sinks"),
    ];
    for (family, name) in cases {
        let copy = FolderCopy::of(family);
        copy.change_tensors(|tensors| {
            tensors.remove(name).unwrap();
        });
        refuses(
            family,
            &copy,
            FILE,
            &format!("expected a tensor `{name}`, found "),
        );
    }
    for (family, _) in cases.into_iter().filter(|(family, _)| *family != "gpt_oss") {
        let copy = FolderCopy::of(family);
        copy.change_tensors(|tensors| {
            let tensor = tensors.first_key_value().unwrap().1.clone();
            tensors.insert("score.weight".into(), tensor);
        });
        let expected =
            "expected no tensor `score.weight`, for which the model of `config.json` has no place";
        refuses(family, &copy, FILE, expected);
    }
    // A layer more than the config says, and one less.
    let copy = FolderCopy::with_field("gpt2", "n_layer", json!(1));
    let expected = "expected no tensor `transformer.h.1.attn.c_attn.bias`, for which the model";
    refuses("gpt2", &copy, FILE, expected);
    let copy = FolderCopy::with_field("gpt2", "n_layer", json!(3));
    refuses(
        "gpt2",
        &copy,
        FILE,
        "expected a tensor `transformer.h.2.attn.c_attn.weight`, found ",
    );
    // A bias that the config denies, and one that it promises.
    let copy = FolderCopy::with_field("gpt_oss", "attention_bias", json!(false));
    let expected =
        "expected no tensor `model.layers.1.self_attn.q_proj.bias`, since the layer has no bias";
    refuses("gpt_oss", &copy, FILE, expected);
    let copy = FolderCopy::with_field("llama", "mlp_bias", json!(true));
    refuses(
        "llama",
        &copy,
        FILE,
        "expected a tensor `model.layers.0.mlp.gate_proj.bias`, found ",
    );
}

#[test]
fn tensors_of_other_sizes() {
    const FILE: &str = "model.safetensors";
    let cases = [
        (
            "llama",
            "intermediate_size",
            19,
            "`model.layers.0.mlp.gate_proj.weight`: expected the shape [19, 24], got [20, 24]",
        ),
        (
            "qwen3",
            "head_dim",
            8,
            "`model.layers.0.self_attn.q_proj.weight`: expected the shape [32, 20], got [24, 20]",
        ),
        (
            "gemma2",
            "vocab_size",
            42,
            "`model.embed_tokens.weight`: expected the shape [42, 20], got [43, 20]",
        ),
        (
            "gpt2",
            "n_positions",
            14,
            "`transformer.wpe.weight`: expected the shape [14, 20], got [13, 20]",
        ),
        (
            "gpt2",
            "n_inner",
            27,
            "`transformer.h.0.mlp.c_fc.weight`: expected the shape [20, 27], got [20, 28]",
        ),
        (
            "bloom",
            "hidden_size",
            21,
            "`transformer.word_embeddings.weight`: expected the shape [59, 21], got [59, 18]",
        ),
    ];
    for (family, field, size, expected) in cases {
        let copy = FolderCopy::with_field(family, field, json!(size));
        refuses(family, &copy, FILE, expected);
    }
}

#[test]
fn files_that_are_missing() {
    let copy = FolderCopy::of("llama");
    copy.remove("model.safetensors");
    let error = load("llama", copy.path()).unwrap_err().to_string();
    let expected = "expected one of the files model.safetensors, model.safetensors.index.json, pytorch_model.bin, \
                    pytorch_model.bin.index.json, found none";
    assert!(error.ends_with(expected), "{error}");
    copy.remove("config.json");
    refuses("llama", &copy, "config.json", "No such file");
}

#[test]
fn shards_that_do_not_fit_their_index() {
    const INDEX: &str = "model.safetensors.index.json";
    const SHARD: &str = "model-00003-of-00005.safetensors";
    let change_place = |copy: &FolderCopy, shard: Value| {
        copy.change_json(INDEX, |index| {
            index["weight_map"]["model.norm.weight"] = shard;
        });
    };
    let refuses =
        |copy: &FolderCopy, expected: &str| refuses("llama_sharded", copy, INDEX, expected);

    let copy = FolderCopy::of("llama_sharded");
    copy.remove(SHARD);
    refuses(&copy, &format!("shard `{SHARD}`: No such file"));

    let copy = FolderCopy::of("llama_sharded");
    change_place(&copy, json!(SHARD));
    let expected =
        format!("expected the tensor `model.norm.weight` in the shard `{SHARD}`, which has none");
    refuses(&copy, &expected);
    for (shard, got) in [
        (json!("../model.safetensors"), "\"../model.safetensors\""),
        (json!("/model.safetensors"), "\"/model.safetensors\""),
        (json!(3), "3"),
    ] {
        change_place(&copy, shard);
        let expected = "expected the name of a file beside the index, got";
        refuses(
            &copy,
            &format!("`weight_map` of the tensor `model.norm.weight`: {expected} {got}"),
        );
    }
    copy.write(INDEX, b"{}");
    refuses(
        &copy,
        "`weight_map`: expected the file of each tensor, got none",
    );

    // A tensor that the index does not list is one too many all the same.
    let copy = FolderCopy::with_field("llama_sharded", "num_hidden_layers", json!(1));
    copy.change_json(INDEX, |index| {
        let places = index["weight_map"].as_object_mut().unwrap();
        places.retain(|name, _| !name.starts_with("model.layers.1.mlp."));
    });
    refuses(
        &copy,
        "expected no tensor `model.layers.1.input_layernorm.weight`, for which",
    );
}
