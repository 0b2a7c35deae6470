//! Files of PyTorch's fill modules whatever the layout of their linear layers in records, and keep what is attached to
//! a parameter.

use attention_core::{DotProductScore, MultiHeadAttention, MultiHeadAttentionConfig};
use attention_import::{load_multi_head_attention, load_recurrent};
use attention_tests::{device, parameters, reference, reference_path};
use attention_transformers::layer::TransformerEncoderLayer;
use attention_transformers::torch::load_transformer_encoder_layer;
use attention_transformers::{NormOrder, TransformerLayerConfig};
use burn::module::{Lora, Module};
use burn::nn::{Linear, LinearConfig, LinearLayout};
use burn::tensor::Device;
use burn_fused_layers::recurrent::{CellKind, Recurrent, RecurrentConfig};

/// Module with layers of `LinearLayout::Col` in the place of its own.
fn columns<'a>(layers: impl IntoIterator<Item = &'a mut Linear>, device: &Device) {
    for layer in layers {
        let [from, to] = layer.weight.dims();
        *layer = LinearConfig::new(from, to)
            .with_bias(layer.bias.is_some())
            .with_layout(LinearLayout::Col)
            .init(device);
    }
}

fn of_heads(module: &mut MultiHeadAttention<DotProductScore>) -> Vec<&mut Linear> {
    let inputs = [&mut module.query, &mut module.key, &mut module.value];
    inputs.into_iter().chain(&mut module.output).collect()
}

fn of_layer(module: &mut TransformerEncoderLayer<DotProductScore>) -> Vec<&mut Linear> {
    let mut layers = of_heads(&mut module.attention);
    let network = &mut module.feed_forward;
    layers.extend([&mut network.input, &mut network.output]);
    layers
}

fn of_recurrent(module: &mut Recurrent) -> Vec<&mut Linear> {
    let layers = module.layers.iter_mut().chain(&mut module.reversed);
    let linears = layers.flat_map(|layer| [&mut layer.input, &mut layer.hidden]);
    linears.collect()
}

/// Loaded modules are the same in both layouts, whether or not a parameter was initialized before.
fn check<M: Module>(
    what: &str,
    device: &Device,
    init: impl Fn() -> M,
    layers: fn(&mut M) -> Vec<&mut Linear>,
    load: impl Fn(M) -> M,
) {
    let expected = parameters::values(&load(init()));
    let with_columns = || {
        let mut module = init();
        columns(layers(&mut module), device);
        module
    };
    let initialized = with_columns();
    let count = parameters::values(&initialized).len();
    for module in [with_columns(), initialized] {
        let loaded = load(module);
        assert_eq!(parameters::values(&loaded).len(), count);
        assert!(parameters::values(&loaded) == expected, "{what}");
        // The layout in records is what it was.
        let restored = with_columns().load_record(loaded.into_record());
        assert!(parameters::values(&restored) == expected, "{what}: record");
    }
    // Adapters beside a base stay, and the base stays as it is.
    let mut adapted = load(init().apply_lora(Lora::new(2, 4.0)));
    for layer in layers(&mut adapted) {
        assert!(layer.weight.adapter().is_some(), "{what}: LoRA");
        assert!(!layer.weight.base().is_require_grad(), "{what}: base");
    }
    let values = parameters::values(&adapted);
    assert!(values.len() > count, "{what}: factors");
    for (path, expected) in &expected {
        assert!(&values[path] == expected, "{what}: {path}");
    }
}

#[test]
fn both_layouts_are_filled_alike() {
    let cases = reference("multi_head");
    device::each_both_ways(|device| {
        for (name, file) in [
            ("d2l", "multi_head_d2l.pt"),
            ("d2l_bias", "multi_head_d2l_bias.safetensors"),
            ("torch", "multi_head.safetensors"),
            ("torch_sizes", "multi_head_sizes.pt"),
        ] {
            let case = cases.iter().find(|case| case.name == name).unwrap();
            let sizes = ["queries", "keys", "values"].map(|name| Some(case.inputs[name].shape[2]));
            let config = MultiHeadAttentionConfig::new(12, 3)
                .with_query_size(sizes[0])
                .with_key_size(sizes[1])
                .with_value_size(sizes[2])
                .with_bias(name != "d2l");
            let load = |of| load_multi_head_attention(of, reference_path(file), "").unwrap();
            check(file, device, || config.init(device), of_heads, load);
        }

        let file = reference_path("import/transformer_encoder_layer.pt");
        let load = |module| load_transformer_encoder_layer(module, &file, "").unwrap();
        let config = TransformerLayerConfig::new(8, 2, 7).with_norm_order(NormOrder::Post);
        let init = || config.init_encoder(device);
        check("layer", device, init, of_layer, load);
    });
}

#[test]
fn both_layouts_of_recurrent_layers_are_filled_alike() {
    device::each(|device| {
        let load = |module| load_recurrent(module, reference_path("gru.safetensors"), "").unwrap();
        let config = RecurrentConfig::new(CellKind::Gru, 5, 7)
            .with_layers(2)
            .with_bidirectional(true);
        check("gru", device, || config.init(device), of_recurrent, load);
    });
}
