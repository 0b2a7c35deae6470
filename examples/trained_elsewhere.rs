//! Attention that was trained in another framework: D2L's layers from the files of PyTorch, MXNet, TensorFlow, JAX and
//! Paddle, each by its own names.
//!
//! *Dive into Deep Learning* (D2L), "Attention Scoring Functions" and "Bahdanau Attention", in each of its versions. The
//! files and the frameworks' results are in `tests/reference/frameworks`; no Python runs here.
//!
//! ```text
//! cargo run -p attention-examples --example trained_elsewhere
//! ```

use std::error::Error;
use std::path::Path;

use attention_core::{AdditiveAttention, Mask, MultiHeadAttention, ScoringFunction};
use attention_import::packages::d2l::{jax, mxnet, paddle, pytorch, tensorflow};
use burn::prelude::*;
use burn_fused_layers::recurrent::{Recurrent, Steps};
use serde_json::Value;

mod common;
use common::println;

fn main() -> Result<(), Box<dyn Error>> {
    let device = &Device::default();
    let folder = &Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/reference/frameworks");

    // ANCHOR: load
    let file = folder.join("pytorch.pt");
    let net = Net {
        attention: pytorch::ADDITIVE.load(&file, "attention.", device)?,
        // No file says the number of heads.
        heads: pytorch::MULTI_HEAD
            .with_num_heads(2)
            .load(&file, "heads.", device)?,
        rnn: pytorch::GRU.load(&file, "rnn.", device)?,
    };
    net.compare(folder, "pytorch")?;

    let file = folder.join("mxnet.params");
    let net = Net {
        attention: mxnet::ADDITIVE.load(&file, "attention.", device)?,
        heads: mxnet::MULTI_HEAD
            .with_num_heads(2)
            .load(&file, "heads.", device)?,
        rnn: mxnet::GRU.load(&file, "rnn.", device)?,
    };
    net.compare(folder, "mxnet")?;

    // Keras calls the layers of a model by their class, and others by their attribute.
    let file = folder.join("tensorflow.weights.h5");
    let heads = tensorflow::MULTI_HEAD.with_num_heads(2);
    let net = Net {
        attention: tensorflow::ADDITIVE.load(&file, "layers/additive_attention/", device)?,
        heads: heads.load(&file, "layers/multi_head_attention/", device)?,
        rnn: tensorflow::GRU.load(&file, "rnn/", device)?,
    };
    net.compare(folder, "tensorflow")?;

    let file = folder.join("jax.msgpack");
    let net = Net {
        attention: jax::ADDITIVE.load(&file, "params/attention/", device)?,
        heads: jax::MULTI_HEAD
            .with_num_heads(2)
            .load(&file, "params/heads/", device)?,
        rnn: jax::GRU.load(&file, "params/rnn/", device)?,
    };
    net.compare(folder, "jax")?;

    let file = folder.join("paddle.pdparams");
    let net = Net {
        attention: paddle::ADDITIVE.load(&file, "attention.", device)?,
        heads: paddle::MULTI_HEAD
            .with_num_heads(2)
            .load(&file, "heads.", device)?,
        rnn: paddle::GRU.load(&file, "rnn.", device)?,
    };
    net.compare(folder, "paddle")
    // ANCHOR_END: load
}

/// D2L's layers.
struct Net<S: ScoringFunction> {
    attention: AdditiveAttention,
    heads: MultiHeadAttention<S>,
    rnn: Recurrent,
}

impl<S: ScoringFunction> Net<S> {
    /// Computes what the framework did, with padding and over seven steps.
    fn compare(&self, folder: &Path, framework: &str) -> Result<(), Box<dyn Error>> {
        let device = &self.rnn.layers[0].input.weight.device();
        let json = std::fs::read_to_string(folder.join(format!("{framework}.json")))?;
        let json: Value = serde_json::from_str(&json)?;
        let cases = &json["cases"];
        let input = |name: &str| tensor(&cases[0]["inputs"][name], device);
        let (queries, keys, values) = (input("queries")?, input("keys")?, input("values")?);
        let lens: Vec<i64> = serde_json::from_value(cases[0]["mask"]["data"].clone())?;
        let mask = &Mask::valid_lens(Tensor::from_ints(lens.as_slice(), device));
        let steps = tensor(&cases[2]["inputs"]["steps"], device)?;

        let (query, key, value) = (queries.clone(), keys.clone(), values.clone());
        let results = [
            (
                "additive",
                "context",
                self.attention.forward(query, key, value, mask),
            ),
            (
                "multi_head",
                "context",
                self.heads.forward(queries, keys, values, mask),
            ),
            (
                "gru",
                "outputs",
                self.rnn.forward(steps, None, &Steps::all()).0,
            ),
        ];
        for (index, (name, what, ours)) in results.into_iter().enumerate() {
            let theirs = tensor(&cases[index]["outputs"][what], device)?;
            let difference = (ours - theirs).abs().max().try_into_scalar::<f32>()?;
            assert!(difference < 1e-6);
            println!("{framework}: {name} within 1e-6");
        }
        Ok(())
    }
}

/// A tensor of a reference file: `{"shape": [...], "data": [...]}`.
fn tensor(json: &Value, device: &Device) -> Result<Tensor<3>, Box<dyn Error>> {
    let shape: [usize; 3] = serde_json::from_value(json["shape"].clone())?;
    let data: Vec<f32> = serde_json::from_value(json["data"].clone())?;
    Ok(Tensor::from_data(TensorData::new(data, shape), device))
}
