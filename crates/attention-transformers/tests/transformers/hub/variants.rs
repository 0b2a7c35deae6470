//! The same models, as other versions and other authors wrote them; and models in training.

use attention_core::NewRows;
use attention_tests::{device, hugging_face_logits};
use attention_transformers::hub::{
    OpenModel, load_bloom, load_gemma, load_gemma2, load_gemma3, load_gpt2, load_llama, open,
};
use serde_json::json;

use super::folder::{FolderCopy, original};
use super::references::{assert_all_learn, check_logits, tensor};

/// Version 4 of `transformers` has the base of the angles beside their scaling, which some older files call `type`.
#[test]
fn older_names_of_angles() {
    let copy = FolderCopy::of("llama");
    copy.change_json("config.json", |config| {
        let mut scaling = config.remove("rope_parameters").unwrap();
        let scaling = scaling.as_object_mut().unwrap();
        config.insert("rope_theta".into(), scaling.remove("rope_theta").unwrap());
        let kind = scaling.remove("rope_type").unwrap();
        scaling.insert("type".into(), kind);
        config.insert("rope_scaling".into(), scaling.clone().into());
    });
    check_logits("llama", copy.path(), load_llama);

    let copy = FolderCopy::with_field("gemma3", "rope_local_base_freq", json!(20.0));
    copy.unset("rope_parameters");
    copy.set("rope_theta", json!(3000.0));
    let scaling = json!({ "rope_type": "linear", "factor": 2.0 });
    copy.set("rope_scaling", scaling);
    // Every second layer has no window.
    copy.unset("layer_types");
    copy.set("sliding_window_pattern", json!(2));
    check_logits("gemma3", copy.path(), load_gemma3);

    let copy = FolderCopy::of("gemma2");
    copy.unset("layer_types");
    check_logits("gemma2", copy.path(), load_gemma2);
}

/// The files of OpenAI and BigScience have the model alone; OpenAI's have masks, too.
#[test]
fn names_without_a_prefix() {
    for family in ["gpt2", "bloom"] {
        let copy = FolderCopy::of(family);
        copy.rename(|name| name.strip_prefix("transformer.").unwrap().to_string());
        if family == "gpt2" {
            copy.copy_tensor("ln_f.bias", "h.0.attn.bias");
            copy.copy_tensor("ln_f.bias", "h.1.attn.masked_bias");
        } else {
            copy.change_json("config.json", |config| {
                for (name, older) in [
                    ("n_head", "num_attention_heads"),
                    ("hidden_size", "n_embed"),
                ] {
                    let value = config.remove(name).unwrap();
                    config.insert(older.into(), value);
                }
            });
        }
        match family {
            "gpt2" => check_logits(family, copy.path(), load_gpt2),
            _ => check_logits(family, copy.path(), load_bloom),
        }
    }
}

/// A Qwen whose windows begin with layer 0 has one in each.
#[test]
fn windows_from_the_first_layer_on() {
    for family in ["qwen2", "qwen3"] {
        let folder = FolderCopy::with_field(family, "max_window_layers", json!(0));
        folder.unset("layer_types");
        let model = open(folder.path(), &device::plain()[0]).unwrap();
        let windows: Vec<_> = match &model {
            OpenModel::Rotary(model) => model.stack.layers.iter().map(|of| of.window).collect(),
            OpenModel::NormalizedRotary(model) => {
                model.stack.layers.iter().map(|of| of.window).collect()
            }
            other => panic!("no Qwen expected: {other:?}"),
        };
        assert_eq!(windows, [Some(4); 2], "{family}");
    }
}

/// An absent window is one of 4,096 tokens in a Mistral, and none in a Phi-3; null is none.
#[test]
fn windows_without_a_field() {
    for (family, expected) in [("mistral", Some(4096)), ("phi3", None)] {
        let absent = FolderCopy::of(family);
        absent.unset("sliding_window");
        let null = FolderCopy::with_field(family, "sliding_window", json!(null));
        for (folder, expected) in [(absent, expected), (null, None)] {
            let model = open(folder.path(), &device::plain()[0]).unwrap();
            let OpenModel::Rotary(model) = model else {
                panic!("expected a decoder, got {model:?}");
            };
            let windows: Vec<_> = model.stack.layers.iter().map(|of| of.window).collect();
            assert_eq!(windows, [expected; 2], "{family}");
        }
    }
}

/// The first releases of Gemma name the exact GELU and mean its approximation.
#[test]
fn the_gelu_of_a_first_gemma() {
    let copy = FolderCopy::with_field("gemma", "hidden_act", json!("gelu"));
    check_logits("gemma", copy.path(), load_gemma);
    let logits = |name: &str| {
        let device = &device::plain()[0];
        let copy = FolderCopy::with_field("gemma", "hidden_act", json!(name));
        let model = load_gemma(copy.path(), device).unwrap();
        let tokens = tensor(&hugging_face_logits("gemma").tokens, device);
        model.forward(tokens, NewRows::All).into_data()
    };
    assert_ne!(logits("gelu_python"), logits("gelu"));
}

/// In a model of texts and pictures logits have no soft-cap.
#[test]
fn a_soft_cap_beside_pictures() {
    let copy = FolderCopy::of("gemma3_pictures");
    copy.change_json("config.json", |config| {
        config["text_config"]["final_logit_softcapping"] = json!(2.0);
    });
    check_logits("gemma3_pictures", copy.path(), load_gemma3);
}

#[test]
fn buffers_of_angles_are_left_alone() {
    let copy = FolderCopy::of("llama");
    let name = "model.layers.1.self_attn.rotary_emb.inv_freq";
    copy.copy_tensor("model.norm.weight", name);
    check_logits("llama", copy.path(), load_llama);
}

/// A file may have the embedding a second time, as the head.
#[test]
fn a_tied_head_is_the_embedding() {
    let copy = FolderCopy::of("gemma2");
    copy.copy_tensor("model.embed_tokens.weight", "lm_head.weight");
    check_logits("gemma2", copy.path(), load_gemma2);
}

/// Also gains that a file has less 1, and sums of logits that a soft-cap has bent.
#[test]
fn every_parameter_is_learned() {
    device::each_training(|device| {
        let model = load_gemma2(original("gemma2"), device).unwrap();
        let tokens = tensor(&hugging_face_logits("gemma2").tokens, device);
        let logits = model.forward(tokens, NewRows::All);
        // The embedding, the last norm, and of each layer four norms and seven linear layers.
        assert_all_learn(&model, logits, 2 + 2 * 11);
    });
}
