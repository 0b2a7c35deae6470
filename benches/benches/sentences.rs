//! Embeddings of sentences by a BERT of Hugging Face's, as all-MiniLM-L6-v2: the means of the tokens of 200 texts, one
//! or 32 at once; one by one with weights that are packed once (`TextEncoder::pack`).
//! Beside PyTorch, `torch.compile` and ONNX Runtime with the same parameters.
//!
//! `ATTENTION_MODEL=FOLDER ATTENTION_PYTHON=/path/to/python cargo bench -p attention-benches --bench sentences`

use std::io;

use attention_benches::bench::Bench;
use attention_benches::tensors::{Call, finish};
use attention_core::NewRows;
use attention_transformers::hub::load_bert_encoder;
use attention_transformers::text_encoder::Pooling;
use burn::tensor::{Device, Tensor, TensorData};
use serde_json::json;

const TEXTS: usize = 200;
const BATCHES: [usize; 2] = [1, 32];
/// The number of tokens of a text: of short sentences.
const TOKENS: std::ops::Range<usize> = 7..27;

fn main() -> io::Result<()> {
    let Ok(folder) = std::env::var("ATTENTION_MODEL") else {
        println!("skipped: set ATTENTION_MODEL to a folder of a BERT");
        return Ok(());
    };
    Bench::run("sentences.py", |bench| {
        for size in BATCHES {
            let title = format!("{TEXTS} sentences b{size}");
            let calls = |device: &Device| {
                let call = embed(&folder, batches(size), device.clone());
                vec![("ours", call)]
            };
            let names = ["PyTorch eager", "torch.compile", "ONNX Runtime"];
            bench.time([&title, "embeddings"], calls, &names, |name| {
                let batches = batches(size);
                json!({"candidate": name, "folder": folder, "batches": batches})
            })?;
        }
        Ok(())
    })
}

/// The tokens of texts in batches of `size`, the shortest first.
fn batches(size: usize) -> Vec<Vec<Vec<i64>>> {
    let len = |at: usize| TOKENS.start + at * TOKENS.len() / TEXTS;
    let text = |at: usize| (0..len(at)).map(move |row| 1000 + ((31 * at + 7 * row) % 9000) as i64);
    let texts: Vec<Vec<i64>> = (0..TEXTS).map(|at| text(at).collect()).collect();
    texts.chunks(size).map(<[_]>::to_vec).collect()
}

fn embed(folder: &str, batches: Vec<Vec<Vec<i64>>>, device: Device) -> Call {
    let mut model = load_bert_encoder(folder, &device).unwrap_or_else(|error| panic!("{error}"));
    model.pack();
    Box::new(move || {
        for texts in &batches {
            let lens: Vec<usize> = texts.iter().map(Vec::len).collect();
            let longest = lens[lens.len() - 1];
            let padded = texts.iter().flat_map(|text| {
                let tokens = text.iter().copied();
                tokens.chain(std::iter::repeat(0)).take(longest)
            });
            let data = TensorData::new(padded.collect::<Vec<_>>(), [texts.len(), longest]);
            let tokens = Tensor::from_data(data, &device);
            let rows = NewRows::First(&lens);
            finish(model.embeddings(tokens, None, rows, Pooling::Mean));
        }
    })
}
