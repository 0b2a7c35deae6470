//! Heads with the parameters of PyTorch's modules have the results of those.

use attention_core::MultiHeadAttentionConfig;
use attention_import::load_multi_head_attention;
use attention_tests::heads::{HEADS, HIDDENS, Inputs, parameters_of_pytorch, run};
use attention_tests::{
    Outcome, Path, assert_outcomes_close, assert_says, device, near_reference, parameters,
    reference, reference_path,
};

/// PyTorch's results, under our names and in our layout.
fn expected(outputs: &Inputs, gradients: &Inputs) -> Outcome {
    let mut expected = outputs.clone();
    let of_parameters = parameters_of_pytorch(gradients);
    let of_parameters = of_parameters.into_iter();
    expected.extend(of_parameters.map(|(path, gradient)| (format!("grad {path}"), gradient)));
    for name in ["queries", "keys", "values"] {
        expected.insert(format!("grad {name}"), gradients[name].clone());
    }
    expected
}

#[test]
fn loaded_parameters_compute_what_pytorch_did() {
    let config = || MultiHeadAttentionConfig::new(HIDDENS, HEADS);
    let files = [
        ("d2l", "multi_head_d2l.pt", ""),
        ("d2l_bias", "multi_head_d2l_bias.safetensors", ""),
        ("torch", "multi_head_nested.pt", "layers.2.self_attn."),
        ("torch", "multi_head.safetensors", ""),
        ("torch_sizes", "multi_head_sizes.pt", ""),
        ("torch_bias_kv", "multi_head_bias_kv.safetensors", ""),
    ];
    let cases = reference("multi_head");
    device::each_training(|device| {
        for (name, file, prefix) in files {
            let case = cases.iter().find(|case| case.name == name).unwrap();
            let sizes = ["queries", "keys", "values"].map(|name| Some(case.inputs[name].shape[2]));
            let module = config()
                .with_query_size(sizes[0])
                .with_key_size(sizes[1])
                .with_value_size(sizes[2])
                .with_bias(name != "d2l")
                .with_num_extra_keys(usize::from(name == "torch_bias_kv"))
                .init(device);
            let module = load_multi_head_attention(module, reference_path(file), prefix).unwrap();
            let expected = expected(&case.outputs, &case.gradients);
            let count = match name {
                "d2l" => 9,
                "torch_bias_kv" => 15,
                _ => 13,
            };
            assert_eq!(expected.len(), count, "{name}");
            for dtype in device::dtypes(device) {
                let tolerance = near_reference(dtype, 2e-6);
                let module = parameters::cast(module.clone(), dtype);
                for path in [Path::ForwardWithWeights, Path::Attend] {
                    let mut expected = expected.clone();
                    if path == Path::Attend {
                        expected.remove("weights");
                    }
                    let on = (device, dtype);
                    let mut outcome = run(&module, &case.inputs, &case.mask, path, on);
                    // A key's bias adds the same to all scores of a query: its gradient is a sum of what cancels, and
                    // is measured by what is summed.
                    // But where further keys have none.
                    let cancels = name != "torch_bias_kv";
                    if cancels && let Some(bias) = outcome.get_mut("grad key.bias") {
                        let summands = expected["grad key.weight"].magnitude();
                        assert!(bias.magnitude() <= tolerance * summands, "{bias:?}");
                        *bias = expected["grad key.bias"].clone();
                    }
                    let what = format!("{file} {path:?} {dtype:?}");
                    assert_outcomes_close(&what, &outcome, &expected, tolerance);
                }
            }
        }
    });
}

#[test]
fn a_file_that_does_not_fit_is_an_error_that_says_why() {
    let device = &device::plain()[0];
    let config = || MultiHeadAttentionConfig::new(HIDDENS, HEADS);
    let biased = || config().with_bias(true);
    let sizes = biased().with_query_size(Some(5)).with_key_size(Some(7));
    let sizes = sizes.with_value_size(Some(4));
    let (torch, d2l) = ("multi_head.safetensors", "multi_head_d2l.pt");
    let shared = biased().with_num_key_value_heads(Some(1));
    let formats = "expected a file of PyTorch, safetensors, NumPy, ";
    let without_output = biased().with_output(false);
    #[rustfmt::skip]
    let cases: [(_, _, _, &[&str]); 10] = [
        (config(), torch, "", &["`in_proj_bias`", "no bias"]),
        (biased(), "missing.pt", "", &["No such file"]),
        (biased(), "generate.py", "", &[formats]),
        (biased(), torch, "x.", &["`x.in_proj_weight`", "found only", "`out_proj.bias`"]),
        (shared, torch, "", &["in_proj_weight", "[20, 12]", "[36, 12]"]),
        (biased().with_value_head_size(Some(5)), torch, "", &["in_proj_weight", "[39, 12]", "[36, 12]"]),
        (without_output, torch, "", &["`out_proj.weight`", "no output projection"]),
        (config().with_query_size(Some(5)), d2l, "", &["W_k.weight", "[12, 12]", "[12, 7]"]),
        (biased(), d2l, "", &["W_q.weight", "[12, 12]", "[12, 5]"]),
        (sizes, d2l, "", &["`W_q.bias`", "found only"]),
    ];
    for (config, file, prefix, parts) in cases {
        let path = reference_path(file);
        let error = load_multi_head_attention(config.init(device), &path, prefix).unwrap_err();
        assert_says(&error, &path.display().to_string());
        assert_says(&error, parts);
    }
}
