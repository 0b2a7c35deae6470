//! BERT and T5.

use serde_json::{Value, json};

use super::super::folder::{FolderCopy, original};
use super::{load, refuses};

fn refuses_field(family: &str, field: &str, value: Value, expected: &str) {
    let copy = FolderCopy::with_field(family, field, value);
    let expected = format!("`{field}`: {expected}");
    refuses(family, &copy, "config.json", &expected);
}

/// The model of a config with another value in a field does not fit its tensors.
fn refuses_tensors(family: &str, field: &str, value: Value, expected: &str) {
    let copy = FolderCopy::with_field(family, field, value);
    refuses(family, &copy, "model.safetensors", expected);
}

#[test]
fn another_model() {
    for [family, other] in [["bert", "t5"], ["t5", "bert"]] {
        let error = load(family, &original(other)).unwrap_err().to_string();
        let expected = format!("`model_type`: expected \"{family}\", got \"{other}\"");
        assert!(error.ends_with(&expected), "{error}");
    }
}

#[test]
fn fields_of_bert() {
    let flags = [
        (
            "is_decoder",
            "expected false, since rows attend to all rows",
        ),
        (
            "add_cross_attention",
            "expected false, since there is no memory",
        ),
    ];
    for (field, expected) in flags {
        refuses_field("bert", field, json!(true), expected);
    }
    let kind = "position_embedding_type";
    let expected = "expected \"absolute\", got \"relative_key\"";
    refuses_field("bert", kind, json!("relative_key"), expected);
    let expected = "expected \"relu\" or \"gelu\" or";
    refuses_field("bert", "hidden_act", json!("tanh"), expected);
    let expected = "expected a divisor of `hidden_size`, 20, got 3";
    refuses_field("bert", "num_attention_heads", json!(3), expected);
    let expected = "expected a number above 0, got 0";
    refuses_field("bert", "layer_norm_eps", json!(0), expected);
    let expected = "expected a size, got none";
    refuses_field("bert", "type_vocab_size", Value::Null, expected);
    let expected = "expected at most 10000 layers, got 10001";
    refuses_field("bert", "num_hidden_layers", json!(10_001), expected);
    let expected = "expected a probability in [0, 1), got -0.5";
    refuses_field("bert", "hidden_dropout_prob", json!(-0.5), expected);
}

#[test]
fn fields_of_t5() {
    let field = "feed_forward_proj";
    let expected = "expected \"relu\" or \"gated-gelu\" or \"gated-silu\", got \"gated-tanh\"";
    refuses_field("t5", field, json!("gated-tanh"), expected);
    let field = "relative_attention_num_buckets";
    for buckets in [2, 7] {
        let expected = format!("expected an even number, at least 4, got {buckets}");
        refuses_field("t5", field, json!(buckets), &expected);
    }
    let expected = "expected at most 5592405, for 3 heads, got 1000000000";
    refuses_field("t5", field, json!(1_000_000_000), expected);
    for field in ["num_layers", "num_decoder_layers"] {
        let expected = "expected at most 10000 layers, got 10001";
        refuses_field("t5", field, json!(10_001), expected);
    }
    let expected = format!("expected more than half of `{field}`, 4, got 4");
    refuses_field("t5", "relative_attention_max_distance", json!(4), &expected);
    refuses_field("t5", "d_kv", json!(0), "expected a size in 1 ..=");
    let flag = "tie_word_embeddings";
    refuses_field(
        "t5",
        flag,
        json!("no"),
        "expected true or false, got \"no\"",
    );
}

#[test]
fn tensors_of_bert() {
    let expected = "expected no tensor `bert.encoder.layer.1.attention.output.LayerNorm.bias`, \
                    for which the model of `config.json` has no place, nor for 15 others";
    refuses_tensors("bert", "num_hidden_layers", json!(1), expected);
    let expected = "expected a tensor `bert.encoder.layer.2.attention.self.query.weight`";
    refuses_tensors("bert", "num_hidden_layers", json!(3), expected);
    let expected =
        "`bert.embeddings.token_type_embeddings.weight`: expected the shape [3, 20], got [2, 20]";
    refuses_tensors("bert", "type_vocab_size", json!(3), expected);
    let expected = "expected a tensor `cls.predictions.decoder.weight`";
    refuses_tensors("bert", "tie_word_embeddings", json!(false), expected);
    for (family, copy, of) in [
        (
            "bert_untied",
            "cls.predictions.decoder.weight",
            "bert.embeddings.word_embeddings.weight",
        ),
        (
            "bert",
            "cls.predictions.decoder.bias",
            "cls.predictions.bias",
        ),
    ] {
        let changed = FolderCopy::with_field(family, "tie_word_embeddings", json!(true));
        changed.change_tensors(|tensors| {
            let mut tensor = tensors[of].clone();
            tensor.1[3] ^= 1;
            tensors.insert(copy.to_string(), tensor);
        });
        let expected =
            format!("`{copy}`: expected the elements of `{of}`, as `tie_word_embeddings` says");
        refuses(family, &changed, "model.safetensors", &expected);
    }
    let copy = FolderCopy::of("bert");
    copy.change_tensors(|tensors| {
        tensors
            .remove("bert.encoder.layer.0.output.LayerNorm.bias")
            .unwrap();
    });
    let expected = "expected a tensor `bert.encoder.layer.0.output.LayerNorm.bias`";
    refuses("bert", &copy, "model.safetensors", expected);
}

#[test]
fn tensors_of_t5() {
    let expected = "expected no tensor `decoder.block.2.layer.0.SelfAttention.k.weight`";
    refuses_tensors("t5", "num_decoder_layers", Value::Null, expected);
    let expected = "expected a tensor `encoder.block.2.layer.0.SelfAttention.q.weight`";
    refuses_tensors("t5", "num_layers", json!(3), expected);
    let expected = "`encoder.block.0.layer.0.SelfAttention.q.weight`: expected the shape [18, 16], got [15, 16]";
    refuses_tensors("t5", "d_kv", json!(6), expected);
    let expected = "expected a tensor `lm_head.weight`";
    refuses_tensors("t5", "tie_word_embeddings", json!(false), expected);
    let expected = "expected a tensor `encoder.block.0.layer.1.DenseReluDense.wi.weight`";
    refuses_tensors("t5_gated", "feed_forward_proj", json!("relu"), expected);
    let bias = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";
    let expected = format!("`{bias}`: expected the shape [6, 3], got [8, 3]");
    refuses_tensors("t5", "relative_attention_num_buckets", json!(6), &expected);

    let copy = FolderCopy::of("t5");
    copy.change_tensors(|tensors| {
        tensors.remove(bias).unwrap();
    });
    let expected = format!("expected a tensor `{bias}`");
    refuses("t5", &copy, "model.safetensors", &expected);
    let copy = FolderCopy::of("t5");
    copy.change_tensors(|tensors| {
        let mut tensor = tensors["shared.weight"].clone();
        tensor.1[3] ^= 1;
        tensors.insert("encoder.embed_tokens.weight".into(), tensor);
    });
    let expected = "`encoder.embed_tokens.weight`: expected the elements of `shared.weight`, as both stacks have";
    refuses("t5", &copy, "model.safetensors", expected);
}
