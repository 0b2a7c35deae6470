//! Feed-forward networks compute what PyTorch's functions do.

use attention_tests::{
    TransformerCase, assert_close, device, near_reference, parameters, transformer_reference,
};
use attention_transformers::FeedForwardActivation;
use attention_transformers::layer::FeedForwardConfig;

fn activation(case: &TransformerCase) -> FeedForwardActivation {
    match case.name.trim_end_matches("_bias") {
        "relu" => FeedForwardActivation::Relu,
        "gelu" => FeedForwardActivation::Gelu,
        "gelu_tanh" => FeedForwardActivation::GeluTanh,
        "silu" => FeedForwardActivation::Silu,
        "reglu" => FeedForwardActivation::ReGlu,
        "geglu" => FeedForwardActivation::GeGlu,
        "geglu_tanh" => FeedForwardActivation::GeGluTanh,
        "swiglu" => FeedForwardActivation::SwiGlu,
        other => panic!("no activation {other}"),
    }
}

#[test]
fn every_activation_is_that_of_pytorch() {
    let cases = transformer_reference("transformer_feed_forward");
    assert_eq!(cases.len(), 8);
    device::each_training(|device| {
        for case in &cases {
            let size = case.inputs["rows"].shape[2];
            let network = FeedForwardConfig::new(size, case.inputs["input.weight"].shape[0])
                .with_activation(activation(case))
                .with_bias(case.name.ends_with("_bias"))
                .init(device);
            let ours = |path: &str, tensors: &attention_tests::Outcome| {
                let array = &tensors[path];
                match array.shape.len() {
                    2 => array.permute(&[1, 0]),
                    _ => array.clone(),
                }
            };
            let network = parameters::changed(network, |path, _| ours(path, &case.inputs));
            for dtype in device::dtypes(device) {
                let tolerance = near_reference(dtype, 2e-6);
                let what = format!("{}: {dtype:?}", case.name);
                let network = parameters::cast(network.clone(), dtype);
                let rows = case.inputs["rows"].leaf::<3>(device, dtype);
                let output = network.forward(rows.clone());
                let received = case.inputs["grad_output"].tensor(device, dtype);
                let gradients = (output.clone() * received).sum().backward();
                assert_close(&what, output, &case.outputs["output"], tolerance);
                let of_rows = parameters::gradient(&rows, Some(&gradients));
                assert_close(&what, &of_rows, &case.gradients["rows"], tolerance);
                let found = parameters::gradients(&network, Some(&gradients));
                assert_eq!(found.len() + 1, case.gradients.len(), "{what}");
                for (path, gradient) in &found {
                    let expected = ours(path, &case.gradients);
                    assert_close(format!("{what}: {path}"), gradient, &expected, tolerance);
                }
            }
        }
    });
}
