//! Adapters of burn-store, which go by the types of layers: this library's are taken for Burn's own.

use std::collections::BTreeMap;

use attention_core::score::QkNormScoreConfig;
use attention_tests::{device, parameters};
use attention_transformers::burn_nn as ours;
use attention_transformers::layer::NormConfig;
use attention_transformers::{
    LanguageModelConfig, TokenEmbeddingConfig, TransformerEncoderConfig, TransformerLayerConfig,
};
use burn::module::Module;
use burn::nn::transformer as burns;
use burn::tensor::{DType, Device, Shape};
use burn_store::{
    BurnToPyTorchAdapter, HalfPrecisionAdapter, IdentityAdapter, ModuleAdapter, ModuleSnapshot,
    ModuleStore, PyTorchToBurnAdapter, SafetensorsStore,
};

/// The file that an adapter writes of a module.
fn saved(module: &impl Module, adapter: impl ModuleAdapter + 'static) -> Vec<u8> {
    let mut store = SafetensorsStore::from_bytes(None).with_to_adapter(adapter);
    module.save_into(&mut store).unwrap();
    store.get_bytes().unwrap()
}

/// Types and shapes of the tensors in a file.
fn tensors(file: Vec<u8>) -> BTreeMap<String, (DType, Shape)> {
    let mut store = SafetensorsStore::from_bytes(Some(file));
    let all = store.get_all_tensors().unwrap().iter();
    all.map(|(name, tensor)| (name.clone(), (tensor.dtype, tensor.shape.clone())))
        .collect()
}

/// `module` with the parameters of a file, which are all of its own.
fn loaded<M: Module>(mut module: M, file: Vec<u8>, adapter: impl ModuleAdapter + 'static) -> M {
    let mut store = SafetensorsStore::from_bytes(Some(file)).with_from_adapter(adapter);
    let result = module.load_from(&mut store).unwrap();
    assert!(result.is_success() && result.unused.is_empty(), "{result}");
    module
}

/// Both modules have the same files, and each reads the other's.
fn check<T: Module, O: Module>(theirs: impl Fn() -> T, ours: impl Fn() -> O) {
    let their_module = theirs();
    let expected = parameters::values(&their_module);
    let file = saved(&their_module, BurnToPyTorchAdapter);
    let our_module = loaded(ours(), file.clone(), PyTorchToBurnAdapter);
    assert!(parameters::values(&our_module) == expected);
    let our_file = saved(&our_module, BurnToPyTorchAdapter);
    assert_eq!(tensors(our_file.clone()), tensors(file));
    let back = loaded(theirs(), our_file, PyTorchToBurnAdapter);
    assert!(parameters::values(&back) == expected);

    let half = saved(&our_module, HalfPrecisionAdapter::new());
    let types = tensors(half.clone());
    let theirs_in_half = saved(&their_module, HalfPrecisionAdapter::new());
    assert_eq!(types, tensors(theirs_in_half));
    for (name, (dtype, _)) in types {
        assert_eq!(dtype, DType::F16, "{name}");
    }
    let back = loaded(ours(), half, HalfPrecisionAdapter::new());
    let rounded = parameters::values(&parameters::cast(our_module, DType::F16));
    assert!(parameters::values(&back) == rounded && rounded != expected);
    for (name, (dtype, _)) in tensors(saved(&back, IdentityAdapter)) {
        assert_eq!(dtype, DType::F32, "{name}");
    }
}

#[test]
fn a_drop_in_transformer_has_the_files_of_burns() {
    device::each(|device| {
        let theirs = || burns::TransformerEncoderConfig::new(12, 17, 3, 2).init(device);
        let ours = || ours::TransformerEncoderConfig::new(12, 17, 3, 2).init(device);
        check(theirs, ours);
    });
    device::each(|device| {
        let theirs = || burns::TransformerDecoderConfig::new(12, 17, 3, 2).init(device);
        let ours = || ours::TransformerDecoderConfig::new(12, 17, 3, 2).init(device);
        check(theirs, ours);
    });
}

/// A language model with the gains of norms and of a score.
fn model(norm: NormConfig, device: &Device) -> impl Module {
    let layer = TransformerLayerConfig::new(12, 3, 17)
        .with_norm(norm)
        .with_sinks(true);
    let embedding = TokenEmbeddingConfig::new(23, 12);
    let config = LanguageModelConfig::new(embedding, TransformerEncoderConfig::new(layer, 1));
    config.init_with(|_| QkNormScoreConfig::new(4).init(device), device)
}

fn names_of(types: &BTreeMap<String, (DType, Shape)>, dtype: DType) -> Vec<&str> {
    let of_type = types.iter().filter(|(_, (of, _))| *of == dtype);
    of_type.map(|(name, _)| name.as_str()).collect()
}

/// Linear layers, embeddings and norms are Burn's; what Burn has no layer for keeps name, layout and type.
#[test]
fn parameters_without_a_layer_of_burns_stay_as_they_are() {
    const OWN: [&str; 3] = [
        "stack.layers.0.attention.attention.score.key",
        "stack.layers.0.attention.attention.score.query",
        "stack.layers.0.attention.attention.sinks",
    ];
    let device = &device::plain()[0];
    for (norm, own, other) in [
        (NormConfig::layer(), "LayerNorm", "RmsNorm"),
        (NormConfig::rms(), "RmsNorm", "LayerNorm"),
    ] {
        let model = model(norm, device);
        let file = saved(&model, BurnToPyTorchAdapter);
        let names = tensors(file.clone());
        for name in OWN {
            assert!(names.contains_key(name), "{name} of {names:?}");
        }
        assert!(names.contains_key("stack.norm.weight"), "{names:?}");
        let input = &names["stack.layers.0.feed_forward.input.weight"].1;
        assert_eq!(input.as_slice(), [17, 12]);
        let is_burns = |name: &&String| name.ends_with("gamma") || name.ends_with("beta");
        assert_eq!(names.keys().find(is_burns), None);

        let half = tensors(saved(&model, HalfPrecisionAdapter::new()));
        assert_eq!(names_of(&half, DType::F32), OWN);
        let all = HalfPrecisionAdapter::new()
            .with_module("QkNormScore")
            .with_module("Attention");
        assert!(names_of(&tensors(saved(&model, all)), DType::F32).is_empty());
        let without = |layer| {
            let adapter = HalfPrecisionAdapter::new().without_module(layer);
            tensors(saved(&model, adapter))["stack.norm.gamma"].0
        };
        assert_eq!([without(own), without(other)], [DType::F32, DType::F16]);
    }
}
