//! Files of parameters that are refused.

use serde_json::{Value, json};

use super::super::folder::FolderCopy;
use super::{load, refuses};

#[test]
fn tensors_that_are_missing_or_too_many() {
    const FILE: &str = "model.safetensors";
    const T5_BIAS: &str = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";
    let cases = [
        ("llama", "model.norm.weight"),
        ("qwen3", "model.layers.1.self_attn.q_norm.weight"),
        ("gemma2", "model.layers.0.pre_feedforward_layernorm.weight"),
        ("gemma3", "model.layers.2.post_attention_layernorm.weight"),
        ("gpt2", "transformer.h.1.attn.c_attn.bias"),
        ("bloom", "transformer.word_embeddings_layernorm.bias"),
        ("bert", "bert.encoder.layer.0.output.LayerNorm.bias"),
        ("mbart", "model.encoder.layer_norm.weight"),
        ("t5", T5_BIAS),
    ];
    for (family, name) in cases {
        let copy = FolderCopy::of(family);
        copy.change_tensors(|tensors| drop(tensors.remove(name).unwrap()));
        let expected = format!("expected a tensor `{name}`, found ");
        refuses(family, &copy, FILE, &expected);
        let copy = FolderCopy::of(family);
        copy.change_tensors(|tensors| {
            let tensor = tensors.first_key_value().unwrap().1.clone();
            tensors.insert("score.weight".into(), tensor);
        });
        let expected =
            "expected no tensor `score.weight`, for which the model of `config.json` has no place";
        refuses(family, &copy, FILE, expected);
    }
}

/// Tensors that are there twice are the same.
#[test]
fn copies_of_tensors() {
    const TIED: &str = "as `tie_word_embeddings` says";
    #[rustfmt::skip]
    let cases = [
        ("bert", "cls.predictions.decoder.bias", "cls.predictions.bias", TIED),
        ("t5", "encoder.embed_tokens.weight", "shared.weight", "as both stacks have"),
        ("bart", "model.decoder.embed_tokens.weight", "model.shared.weight", "as both stacks have"),
    ];
    for (family, copy, of, expected) in cases {
        let changed = FolderCopy::with_field(family, "tie_word_embeddings", json!(true));
        changed.change_tensors(|tensors| {
            let mut tensor = tensors[of].clone();
            tensor.1[3] ^= 1;
            tensors.insert(copy.to_string(), tensor);
        });
        let expected = format!("`{copy}`: expected the elements of `{of}`, {expected}");
        refuses(family, &changed, "model.safetensors", &expected);
    }
}

/// The adapter would change the numbers; quantized parameters of the text model beside pictures.
#[test]
fn adapters_and_packed_parameters() {
    let copy = FolderCopy::of("llama");
    copy.write("adapter_config.json", b"{}");
    let expected =
        "expected no adapter of PEFT beside a model, since it is not read: save the model that";
    refuses("llama", &copy, "adapter_config.json", expected);
    let copy = FolderCopy::of("gemma3_pictures");
    copy.change_json("config.json", |config| {
        config["text_config"]["quantization_config"] = json!({"bits": 4});
    });
    let expected =
        "`text_config.quantization_config`: expected none, since parameters that are packed";
    refuses("gemma3", &copy, "config.json", expected);
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
        let of = "`weight_map` of the tensor `model.norm.weight`";
        refuses(&copy, &format!("{of}: {expected} {got}"));
    }
    copy.write(INDEX, b"{}");
    let message = "`weight_map`: expected the file of each tensor, got none";
    refuses(&copy, message);

    // A tensor that the index does not list is one too many all the same.
    let copy = FolderCopy::with_field("llama_sharded", "num_hidden_layers", json!(1));
    copy.change_json(INDEX, |index| {
        let places = index["weight_map"].as_object_mut().unwrap();
        places.retain(|name, _| !name.starts_with("model.layers.1.mlp."));
    });
    let message = "expected no tensor `model.layers.1.input_layernorm.weight`, for which";
    refuses(&copy, message);
}
