//! Attentions of packages under names of a wrapper, a framework or another class: read, or told.

use attention_core::Mask;
use attention_import::packages::{espnet, keras, opennmt, tensorflow_addons};
use attention_tests::{Array, assert_same, assert_says, device, reference_path};
use burn::tensor::Tensor;
use tempfile::TempDir;

use crate::safetensors::{self, Entry, ones};

#[test]
fn a_class_that_is_a_recipe_is_told() {
    let device = &device::plain()[0];
    let file = |name: &str| reference_path(&format!("packages/recipe_{name}.safetensors"));
    let loaded = opennmt::MLP.load(file("coverage"), "decoder.attn.", device);
    let expected = "OpenNMT-py's coverage_attn, a recipe in docs/recipes.md";
    assert_says(loaded.unwrap_err(), expected);
    let at = "decoder.att.0.";
    for package in [espnet::ATT_LOC, espnet::ATT_COV_LOC] {
        let error = package.load(file("loc_2d"), at, device).unwrap_err();
        let error = error.to_string();
        assert_says(&error, "ESPnet's AttLoc2D, a recipe");
        assert!(!error.contains("the names fit"), "{error}");
    }
    let cases = [
        ("loc_2d", "AttLoc2D"),
        ("loc_rec", "AttLocRec"),
        ("heads_add", "AttMultiHeadAdd"),
    ];
    for (name, class) in cases {
        let error = espnet::ATT_ADD.load(file(name), at, device).unwrap_err();
        assert_says(error, class);
    }
}

/// The file of a case with other names.
fn renamed(case: &str, rename: impl Fn(&str) -> String) -> (TempDir, std::path::PathBuf) {
    let content = std::fs::read(reference_path(&format!("packages/{case}.safetensors"))).unwrap();
    let (len, rest) = content.split_first_chunk().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*len) as usize);
    let header: serde_json::Value = serde_json::from_slice(header).unwrap();
    let tensors = header.as_object().unwrap().clone().into_iter();
    let renamed = tensors.map(|(name, info)| (rename(&name), info));
    let header = serde_json::Value::Object(renamed.collect());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("renamed");
    safetensors::write_parts(&path, &header.to_string(), data);
    (folder, path)
}

#[test]
fn variables_of_an_attention_wrapper_are_found_under_their_two_paths() {
    let device = &device::plain()[0];
    let plain = reference_path("packages/tensorflow_addons.safetensors");
    let expected = tensorflow_addons::BAHDANAU.load(plain, "BahdanauAttention/", device);
    let query = Tensor::<3>::ones([1, 2, 3], device);
    let keys = Tensor::<3>::ones([1, 4, 5], device).cumsum(1);
    let context = |attention: attention_core::AdditiveAttention| {
        Array::read(attention.forward(query.clone(), keys.clone(), keys.clone(), Mask::none()))
    };
    let expected = context(expected.unwrap());
    let check = |rename: &dyn Fn(&str) -> String, prefixes: &[&str]| {
        let (_folder, path) = renamed("tensorflow_addons", |name| {
            match name.strip_prefix("BahdanauAttention/") {
                Some(own) => rename(own),
                None => format!("dec/lstm/{name}"),
            }
        });
        for prefix in prefixes {
            let loaded = tensorflow_addons::BAHDANAU.load(&path, prefix, device);
            let loaded = loaded.unwrap_or_else(|error| panic!("{prefix}: {error}"));
            assert_eq!(context(loaded).data, expected.data, "{prefix}");
        }
        let encoder = tensorflow_addons::BAHDANAU.load(&path, "encoder/", device);
        assert!(encoder.is_err());
    };
    let of_wrapper = |end: &'static str| {
        move |own: &str| match own {
            "memory_layer/kernel" => format!("dec/BahdanauAttention/{own}{end}"),
            _ => format!("dec/attention_wrapper/BahdanauAttention/{own}{end}"),
        }
    };
    let prefixes = [
        "",
        "dec/",
        "dec/attention_wrapper/",
        "dec/attention_wrapper/BahdanauAttention/",
        "dec/BahdanauAttention/",
    ];
    check(&of_wrapper(""), &prefixes);
    check(&of_wrapper(":0"), &prefixes);
    let in_checkpoint = |own: &str| {
        let own = [own, "query_layer/kernel"][usize::from(own == "kernel")];
        format!("dec/cell/_attention_mechanism/{own}/.ATTRIBUTES/VARIABLE_VALUE")
    };
    check(&in_checkpoint, &["dec/cell/_attention_mechanism/", "dec/"]);
    let of_one = |own: &str| match own {
        "kernel" => "dec/attention/bahdanau_attention/query_layer/kernel".to_string(),
        "memory_layer/kernel" => format!("dec/{own}"),
        _ => format!("dec/attention/bahdanau_attention/{own}"),
    };
    check(&of_one, &["dec/attention/bahdanau_attention/"]);
}

#[test]
fn keras_on_pytorch_is_read_by_its_paths() {
    let device = &device::plain()[0];
    for wrapped in ["_torch_params.", "net._torch_params."] {
        let (_folder, path) = renamed("keras_additive", |name| format!("{wrapped}{name}"));
        for prefix in ["", wrapped] {
            let prefix = format!("{prefix}additive_attention/");
            keras::ADDITIVE.load(&path, &prefix, device).unwrap();
        }
    }
}

#[test]
fn luong_of_tensorflow_has_its_scale() {
    let device = &device::plain()[0];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("luong");
    let two = 2_f32.to_le_bytes();
    let scale = "dec/attention_wrapper/LuongAttention/attention_g";
    let scale: Entry = (scale, "F32", &two, &[]);
    let kernel = ones("dec/LuongAttention/memory_layer/kernel", &[5, 3]);
    safetensors::write(&path, &[kernel, scale]);
    let loaded = tensorflow_addons::LUONG.load(&path, "dec/", device);
    let matrix = loaded.unwrap().score.query.weight.val();
    assert_same("matrix", matrix, &Array::full(&[3, 5], 2.0));
}
