//! Angles of rotary embedding by the fields of a config, in the order in which `transformers` 5.24 goes by them, and at
//! positions beyond `max_position_embeddings`.

use attention_core::{NewRows, ScoringFunction};
use attention_tests::{Array, assert_same, device, hugging_face_logits};
use attention_transformers::generate::FinishReason;
use attention_transformers::hub::{load_gemma2, load_gemma3, load_llama, load_phi3, load_qwen3};
use attention_transformers::position_embedding::PositionLimit;
use attention_transformers::{BeamConfig, GenerateConfig};
use serde_json::{Value, json};

use super::folder::FolderCopy;
use super::references::{Load, check_logits, tensor};

/// A copy of a folder whose config has these fields; null removes one.
fn changed(family: &str, fields: Value) -> FolderCopy {
    let copy = FolderCopy::of(family);
    for (name, value) in fields.as_object().unwrap().clone() {
        match value {
            Value::Null => copy.unset(&name),
            value => copy.set(&name, value),
        }
    }
    copy
}

/// The logits of a family with other fields.
fn logits<S: ScoringFunction>(family: &str, fields: Value, load: Load<S>) -> Array {
    let device = &device::plain()[0];
    let model = load(changed(family, fields).path().to_owned(), device).unwrap();
    let tokens = tensor(&hugging_face_logits(family).tokens, device);
    Array::read(model.forward(tokens, NewRows::All))
}

fn of_gemma3(fields: Value) -> Array {
    logits("gemma3", fields, load_gemma3)
}

fn of_llama(fields: Value) -> Array {
    logits("llama", fields, load_llama)
}

/// `rope_parameters` of Gemma 3 with these angles of layers without a window.
fn nested(full: Value) -> Value {
    let sliding = json!({ "rope_type": "default", "rope_theta": 20.0 });
    json!({ "sliding_attention": sliding, "full_attention": full })
}

#[test]
fn rope_scaling_changes_the_angles_of_layers_without_a_window() {
    let linear = json!({ "rope_type": "linear", "factor": 2.0 });
    // The base stays.
    for full in [
        json!({ "rope_type": "default", "rope_theta": 3000.0 }),
        json!({ "type": "default", "rope_theta": 3000.0, "factor": 7.0 }),
    ] {
        let fields =
            json!({ "rope_parameters": nested(full), "rope_scaling": linear, "rope_theta": 77.0 });
        let copy = changed("gemma3", fields);
        check_logits("gemma3", copy.path(), load_gemma3);
    }
    // A base of its own, and a field that it has not.
    let all = json!({ "rope_type": "linear", "factor": 2.0, "rope_theta": 3000.0 });
    let full = json!({ "rope_type": "yarn", "rope_theta": 5.0 });
    let fields = json!({ "rope_parameters": nested(full), "rope_scaling": all });
    let copy = changed("gemma3", fields);
    check_logits("gemma3", copy.path(), load_gemma3);

    let older = |scaling: Value| {
        of_gemma3(json!({
            "rope_parameters": null,
            "rope_scaling": scaling,
            "rope_local_base_freq": 20.0,
            "rope_theta": 3000.0,
        }))
    };
    let plain = older(Value::Null);
    assert_same("empty", &older(json!({})), &plain);
    assert_ne!(older(linear), plain);
}

#[test]
fn a_rope_scaling_that_would_be_ignored_is_refused() {
    let default = nested(json!({ "rope_type": "default", "rope_theta": 3000.0 }));
    let linear = json!({ "rope_type": "linear", "factor": 2.0 });
    let older = json!({ "type": "linear", "factor": 2.0 });
    let no_kind = "`rope_scaling.rope_type`: expected the kind of scaling, \
                   as version 5 of `transformers` ignores `type` here, got none";
    let no_object = "`rope_parameters.full_attention`: expected an object, which `rope_scaling` changes, got none";
    for (parameters, scaling, expected) in [
        (Value::Null, older.clone(), no_kind),
        (Value::Null, json!({ "factor": 2.0 }), no_kind),
        (default, older, no_kind),
        (json!({}), linear, no_object),
    ] {
        let fields = json!({ "rope_scaling": scaling, "rope_parameters": parameters });
        let folder = changed("gemma3", fields);
        let error = load_gemma3(folder.path(), &device::plain()[0]).unwrap_err();
        assert!(error.to_string().ends_with(expected), "{error}");
    }
}

#[test]
fn the_original_length_stands_within_nested_angles_and_beside_others() {
    const TOP: &str = "original_max_position_embeddings";
    let yarn = |original: Value| {
        let mut yarn = json!({
            "rope_type": "yarn", "rope_theta": 300.0, "factor": 4.0, "beta_fast": 2.0, "beta_slow": 0.5,
        });
        if !original.is_null() {
            yarn[TOP] = original;
        }
        yarn
    };
    let gemma3 = |within: Value, top: Value| {
        of_gemma3(json!({ "rope_parameters": nested(yarn(within)), TOP: top }))
    };
    let [of_8, of_32] = [8, 32].map(|original| gemma3(json!(original), Value::Null));
    assert_ne!(of_8, of_32);
    assert_same("within", &gemma3(json!(8), json!(32)), &of_8);
    // `max_position_embeddings` is 32.
    assert_same("neither", &gemma3(Value::Null, json!(8)), &of_32);

    let llama =
        |within: Value, top: Value| of_llama(json!({ "rope_parameters": yarn(within), TOP: top }));
    let [of_8, of_64] = [8, 64].map(|original| llama(json!(original), Value::Null));
    assert_ne!(of_8, of_64);
    assert_same("beside", &llama(json!(64), json!(8)), &of_8);
    assert_same("only beside", &llama(Value::Null, json!(8)), &of_8);
    assert_same("neither", &llama(Value::Null, Value::Null), &of_64);
}

/// Version 5.24 reads it beside the kinds of layers.
#[test]
fn truncate_of_nested_angles_stands_beside_them() {
    let yarn = |truncate: Value, beside: Option<Value>| {
        let mut all = nested(json!({
            "rope_type": "yarn", "rope_theta": 300.0, "factor": 4.0, "beta_fast": 2.0, "beta_slow": 0.5,
            "original_max_position_embeddings": 64, "truncate": truncate,
        }));
        if let Some(beside) = beside {
            all["truncate"] = beside;
        }
        of_gemma3(json!({ "rope_parameters": all }))
    };
    let truncated = yarn(json!(true), Some(json!(true)));
    assert_same("within", &yarn(json!(false), None), &truncated);
    let other = yarn(json!(false), Some(json!(false)));
    assert_ne!(other, truncated);
    for beside in [json!(false), Value::Null] {
        assert_same("beside", &yarn(json!(true), Some(beside)), &other);
    }
}

/// A `truncate` of null is false.
#[test]
fn truncate_without_a_value() {
    let yarn = |truncate: Value| {
        of_llama(json!({ "rope_parameters": {
            "rope_type": "yarn", "rope_theta": 300.0, "factor": 4.0, "beta_fast": 2.0, "beta_slow": 0.5,
            "original_max_position_embeddings": 64, "truncate": truncate,
        }}))
    };
    assert_same("null", &yarn(Value::Null), &yarn(json!(false)));
    assert_ne!(yarn(json!(true)), yarn(json!(false)));
}

/// The older name of a Phi-3's angles, and a part of heads that the one within the object decides.
#[test]
fn older_angles_of_phi3() {
    let (short, long) = (json!([1.5, 3.0]), json!([2.0, 8.0]));
    for (field, kind) in [("type", "yarn"), ("type", "su"), ("rope_type", "yarn")] {
        let older = json!({ field: kind, "short_factor": short, "long_factor": long });
        let copy = changed(
            "phi3",
            json!({
                "rope_parameters": null, "rope_scaling": older,
                "rope_theta": 200.0, "partial_rotary_factor": 0.5,
            }),
        );
        check_logits("phi3", copy.path(), load_phi3);
    }
    let copy = changed("phi3", json!({ "partial_rotary_factor": 0.25 }));
    check_logits("phi3", copy.path(), load_phi3);
}

#[test]
fn an_empty_object_of_the_older_name_is_none() {
    let copy = changed("llama", json!({ "rope_scaling": {} }));
    check_logits("llama", copy.path(), load_llama);
}

/// The texts have more tokens than the config says, and the angles that they would have anyhow.
#[test]
fn texts_may_be_longer_than_max_position_embeddings() {
    macro_rules! families {
        ($($family:literal: $load:ident;)*) => {$(
            for max_positions in [3, 1_000_000] {
                let copy = changed($family, json!({ "max_position_embeddings": max_positions }));
                check_logits($family, copy.path(), $load);
            }
        )*};
    }
    families! {
        "llama": load_llama;
        "qwen3": load_qwen3;
        "gemma2": load_gemma2;
        "gemma3": load_gemma3;
    }
}

/// Texts within the length of the training have the angles of the training.
#[test]
fn dynamic_angles_are_the_plain_ones_within_the_length() {
    let of_kind = |kind: &str| {
        let angles = json!({ "rope_type": kind, "rope_theta": 1000.0, "factor": 4.0 });
        of_llama(json!({ "rope_parameters": angles, "max_position_embeddings": 11 }))
    };
    assert_same("dynamic", &of_kind("dynamic"), &of_kind("default"));
}

#[test]
#[should_panic(
    expected = "at most 10 tokens expected, since `dynamic` has other angles for all tokens of a longer text, got 11"
)]
fn dynamic_angles_end_with_the_length() {
    let angles = json!({ "rope_type": "dynamic", "rope_theta": 1000.0, "factor": 4.0 });
    of_llama(json!({ "rope_parameters": angles, "max_position_embeddings": 10 }));
}

#[test]
#[should_panic(
    expected = "at most 10 tokens expected, since `longrope` has other angles for all tokens of a longer text, got 11"
)]
fn longrope_ends_with_the_original_length() {
    let fields = json!({ "original_max_position_embeddings": 10 });
    logits("phi3", fields, load_phi3);
}

/// A text that is made ends where its angles do, and its tokens so far are kept; the last one needs no position.
#[test]
fn generation_ends_with_the_angles() {
    let device = &device::plain()[0];
    let fields = json!({ "original_max_position_embeddings": 10 });
    let model = load_phi3(changed("phi3", fields).path(), device).unwrap();
    let prompts = [vec![3, 1, 4, 1], vec![5, 9]];
    let config = GenerateConfig::new(8);
    let texts = config.generate(&model, model.cache(), &prompts).run();
    let limit = PositionLimit {
        max_positions: 10,
        reason: "`longrope` has other angles for all tokens of a longer text",
    };
    for (text, len, reason) in [
        (&texts[0], 7, FinishReason::PositionLimit(limit)),
        (&texts[1], 8, FinishReason::MaxTokens),
    ] {
        assert_eq!((text.tokens.len(), text.finish_reason), (len, Some(reason)));
    }
    for (prompt, text) in prompts.iter().zip(&texts) {
        let mut all = prompt.clone();
        for token in &text.tokens {
            let logits = model.forward(tensor(&[all.clone()], device), NewRows::All);
            let last = logits.narrow(1, all.len() - 1, 1).argmax(2);
            assert_eq!(last.into_data().iter::<u32>().next(), Some(*token));
            all.push(*token);
        }
    }
    // Beams end there, too.
    let beams = BeamConfig::new(2, 9).generate(&model, model.cache(), &prompts);
    let lens = beams.iter().map(|of| of[0].tokens.len());
    assert_eq!(lens.collect::<Vec<_>>(), [7, 9]);
}

/// The factor of YaRN that is null is the one by which texts grow.
#[test]
fn a_factor_of_yarn_that_is_null() {
    let of_factor = |factor: Value| {
        let angles = json!({ "rope_type": "yarn", "rope_theta": 1000.0, "factor": factor,
            "original_max_position_embeddings": 16 });
        of_llama(json!({ "rope_parameters": angles }))
    };
    assert_same("yarn", &of_factor(Value::Null), &of_factor(json!(4.0)));
}
