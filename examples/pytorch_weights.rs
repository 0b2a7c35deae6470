//! Parameters from PyTorch: D2L's `AdditiveAttention`, loaded from its `state_dict`.
//!
//! *Dive into Deep Learning* (D2L), "Attention Scoring Functions", PyTorch version of `AdditiveAttention`, saved by
//! `torch.save(attention.state_dict(), ...)` or `safetensors.torch.save_file(...)`. The files and PyTorch's results are
//! in `tests/reference`; no Python runs here.
//!
//! ```text
//! cargo run -p attention-examples --example pytorch_weights
//! ```

use std::error::Error;
use std::path::Path;

use attention_core::{AdditiveAttentionConfig, AttentionOutput, Mask};
use attention_import::load_additive_attention;
use burn::prelude::*;
use serde_json::Value;

mod common;
use common::println;

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/reference");

    // PyTorch's inputs and outputs.
    let json = std::fs::read_to_string(folder.join("additive_state_dict.json"))?;
    let case = &serde_json::from_str::<Value>(&json)?["cases"][0];
    let input = |name: &str| tensor(&case["inputs"][name], &device);
    let output = |name: &str| tensor(&case["outputs"][name], &device);
    let (queries, keys, values) = (input("queries")?, input("keys")?, input("values")?);
    let lens: Vec<i64> = serde_json::from_value(case["mask"]["data"].clone())?;
    let mask = Mask::valid_lens(Tensor::from_ints(lens.as_slice(), &device));

    // PyTorch keeps the weight of a linear layer as [out, in]: `W_q.weight` is [num_hiddens, query_size].
    let num_hiddens = case["inputs"]["W_q.weight"]["shape"][0].as_u64();
    let num_hiddens = num_hiddens.ok_or("`W_q.weight` has no shape")? as usize;
    let ([_, _, query_size], [_, _, key_size]) = (queries.dims(), keys.dims());
    let config = AdditiveAttentionConfig::new(query_size, key_size, num_hiddens);

    // ANCHOR: load
    for file in ["additive_state_dict.pt", "additive_state_dict.safetensors"] {
        // The last argument is the prefix of the parameter names, for an attention inside a model: "decoder.attention."
        let attention = load_additive_attention(config.init(&device), folder.join(file), "")?;
        let AttentionOutput { context, weights } =
            attention.forward_with_weights(queries.clone(), keys.clone(), values.clone(), &mask);

        println!("{file}: largest difference from PyTorch");
        for (name, ours) in [("context", context), ("weights", weights)] {
            let difference = (ours - output(name)?).abs().max();
            let difference = difference.try_into_scalar::<f32>()?;
            println!("  {name} {difference:e}");
            assert!(difference < 1e-5);
        }
    }
    // ANCHOR_END: load
    Ok(())
}

/// A tensor of a reference file: `{"shape": [...], "data": [...]}`.
fn tensor(json: &Value, device: &Device) -> Result<Tensor<3>, Box<dyn Error>> {
    let shape: [usize; 3] = serde_json::from_value(json["shape"].clone())?;
    let data: Vec<f32> = serde_json::from_value(json["data"].clone())?;
    Ok(Tensor::from_data(TensorData::new(data, shape), device))
}
