//! Recurrent layers with the parameters of Burn's modules have the results of those, and train as they do.

use attention_tests::{Array, Outcome, assert_close, assert_says, device, parameters};
use burn::module::{Lora, Module, ParamGroup, Quantizer};
use burn::nn::gru::{BiGruConfig, GruConfig};
use burn::nn::{BiLstmConfig, LstmConfig};
use burn::tensor::quantization::{Calibration, QuantValue};
use burn::tensor::{DType, Device, Gradients, Tensor};
use burn_fused_layers::recurrent::{Recurrent, RecurrentLayer, Steps, UnsupportedLayer};

const SIZES: [usize; 2] = [5, 7];

const GRU: &[&str] = &["reset_gate", "update_gate", "new_gate"];
const LSTM: &[&str] = &["input_gate", "forget_gate", "cell_gate", "output_gate"];

/// A module of Burn and the layers that were made of it.
struct Converted {
    name: &'static str,
    gates: &'static [&'static str],
    /// The outputs of Burn's module.
    theirs: Tensor<3>,
    ours: Recurrent,
    /// The gradients of Burn's module.
    gradients_of_theirs: Box<dyn Fn(&Gradients) -> Outcome>,
}

/// All of them, on a device.
fn converted(input: &Tensor<3>, bias: bool, device: &Device) -> Vec<Converted> {
    let [from, to] = SIZES;
    let mut all = Vec::new();
    macro_rules! add {
        ($name:literal, $gates:ident, $config:expr, $module:ident => $outputs:expr, $ours:ty) => {{
            let $module = $config.init(device);
            all.push(Converted {
                name: $name,
                gates: $gates,
                theirs: $outputs,
                ours: <$ours>::try_from(&$module).unwrap().into(),
                gradients_of_theirs: Box::new(move |of| parameters::gradients(&$module, Some(of))),
            });
        }};
    }
    let input = || input.clone();
    for reset_after in [true, false] {
        let config = GruConfig::new(from, to, bias).with_reset_after(reset_after);
        add!("Gru", GRU, config, gru => gru.forward(input(), None), RecurrentLayer);
        let config = BiGruConfig::new(from, to, bias).with_reset_after(reset_after);
        add!("BiGru", GRU, config, gru => gru.forward(input(), None).0, Recurrent);
    }
    let config = LstmConfig::new(from, to, bias);
    add!("Lstm", LSTM, config, lstm => lstm.forward(input(), None).0, RecurrentLayer);
    let config = BiLstmConfig::new(from, to, bias);
    add!("BiLstm", LSTM, config, lstm => lstm.forward(input(), None).0, Recurrent);
    all
}

/// Arrays, concatenated along the last axis.
fn side_by_side(parts: &[&Array]) -> Array {
    let mut shape = parts[0].shape.clone();
    let width = shape.pop().unwrap();
    shape.push(width * parts.len());
    Array::from_fn(&shape, |at| {
        let (column, outer) = at.split_last().expect("an axis");
        parts[column / width].at(&[outer, &[column % width]].concat())
    })
}

impl Converted {
    /// A parameter of ours from theirs; `path` is one such as `reversed.0.hidden.weight`.
    fn of_theirs(&self, path: &str, theirs: &Outcome) -> Array {
        let [direction, _, of, kind] = path.split('.').collect::<Vec<_>>().try_into().unwrap();
        let direction = match (self.name.starts_with("Bi"), direction) {
            (false, _) => "",
            (true, "layers") => "forward.",
            (true, _) => "reverse.",
        };
        let gate = |gate| &theirs[&format!("{direction}{gate}.{of}_transform.{kind}")];
        side_by_side(&self.gates.iter().map(gate).collect::<Vec<_>>())
    }
}

#[test]
fn they_compute_what_burns_modules_do() {
    device::each_both_ways(|device| {
        let input = Array::draw(1, &[2, 4, SIZES[0]]).f32::<3>(device);
        for bias in [true, false] {
            for case in converted(&input, bias, device) {
                let (outputs, _) = case.ours.forward(input.clone(), None, &Steps::all());
                assert_close(case.name, outputs, case.theirs, 2e-6);
            }
        }
    });
}

#[test]
fn gradients_reach_all_parameters_and_are_those_of_burns_modules() {
    device::each_training(|device| {
        let input = Array::draw(1, &[2, 4, SIZES[0]]).f32::<3>(device);
        for bias in [true, false] {
            for case in converted(&input, bias, device) {
                let received = Array::draw(2, &case.theirs.dims()).f32::<3>(device);
                let loss = (case.theirs.clone() * received.clone()).sum();
                let theirs = (case.gradients_of_theirs)(&loss.backward());
                let (outputs, _) = case.ours.forward(input.clone(), None, &Steps::all());
                let gradients = (outputs * received).sum().backward();
                let ours = parameters::gradients(&case.ours, Some(&gradients));
                let per_layer = if bias { 4 } else { 2 };
                let layers = case.ours.layers.len() + case.ours.reversed.len();
                assert_eq!(ours.len(), per_layer * layers, "{}", case.name);
                for (path, got) in ours {
                    assert!(got.magnitude() > 0.0, "{}: {path}", case.name);
                    let expected = case.of_theirs(&path, &theirs);
                    assert_close(format!("{}: {path}", case.name), &got, &expected, 1e-5);
                }
            }
        }
    });
}

/// Whether each parameter requires gradients.
fn requires_grad(layer: &RecurrentLayer) -> Vec<bool> {
    let linear = [&layer.input, &layer.hidden];
    let weights = linear.map(|linear| linear.weight.is_require_grad());
    let biases = linear.into_iter().filter_map(|linear| linear.bias.as_ref());
    let biases = biases.map(|bias| bias.is_require_grad());
    weights.into_iter().chain(biases).collect()
}

/// Also what was converted where nothing trains.
#[test]
fn they_require_gradients_where_burns_modules_did() {
    device::each(|plain| {
        let training = plain.clone().autodiff();
        for frozen in [false, true] {
            let gru = |device: &Device| {
                let gru = GruConfig::new(5, 7, true).init(device);
                if frozen { gru.no_grad() } else { gru }
            };
            let convert = |device| RecurrentLayer::try_from(&gru(device)).unwrap();
            assert_eq!(requires_grad(&convert(&training)), [!frozen; 4]);
            assert_eq!(requires_grad(&convert(plain)), [false; 4]);
            assert_eq!(requires_grad(&convert(plain).train()), [!frozen; 4]);
        }
    });
}

#[test]
fn a_converted_layer_shares_no_parameter_with_its_source() {
    let device = &device::plain()[0].clone().autodiff();
    let gru = GruConfig::new(5, 7, true).init(device);
    let [first, second] = [(); 2].map(|()| RecurrentLayer::try_from(&gru).unwrap());
    let id = first.input.weight.id;
    assert_ne!(id, second.input.weight.id);
    assert_ne!(id, gru.reset_gate.input_transform.weight.id);
}

#[test]
fn quantised_gates_become_whole() {
    device::each(|device| {
        let scheme = device.settings().quantization.scheme;
        let mut quantizer = Quantizer::new(Calibration::MinMax, scheme.with_value(QuantValue::Q8S));
        let gru = GruConfig::new(8, 8, true).init(device);
        let gru = gru.quantize_weights(&mut quantizer);
        let gates = [&gru.reset_gate, &gru.update_gate, &gru.new_gate];
        let whole = gates.map(|gate| {
            let weight = gate.hidden_transform.weight.val();
            assert!(matches!(weight.dtype(), DType::QFloat(_)));
            Array::read(weight.dequantize())
        });
        let ours = RecurrentLayer::try_from(&gru).unwrap();
        let weight = Array::read(ours.hidden.weight.val());
        assert_eq!(weight, side_by_side(&whole.each_ref()));
    });
}

/// The low-rank factors would be lost, and their sum with a frozen base would not train.
#[test]
fn reparameterized_gates_are_refused_until_they_are_merged() {
    let device = &device::plain()[0].clone().autodiff();
    fn check<M: Module, R>(
        module: M,
        name: &str,
        gates: [&str; 2],
        convert: impl Fn(&M) -> Result<R, UnsupportedLayer>,
    ) {
        assert!(convert(&module).is_ok());
        for gate in gates {
            let path = format!("{gate}_transform.weight");
            let lora = Lora::new(2, 4.0).set_param_group(ParamGroup::from_path(&path));
            let adapted = module.clone().apply_lora(lora);
            let error = convert(&adapted).err().unwrap().to_string();
            let expected = format!("Burn's {name} expected no LoRA or other reparameterization");
            assert!(error.starts_with(&expected), "{path}: {error}");
            assert!(convert(&adapted.materialize()).is_ok(), "{path}");
        }
    }
    let gru = GruConfig::new(5, 7, true).init(device);
    let gates = ["reset_gate.input", "new_gate.hidden"];
    check(gru, "Gru", gates, |it| RecurrentLayer::try_from(it));
    let lstm = LstmConfig::new(5, 7, true).init(device);
    let gates = ["output_gate.input", "forget_gate.hidden"];
    check(lstm, "Lstm", gates, |it| RecurrentLayer::try_from(it));
    let gru = BiGruConfig::new(5, 7, true).init(device);
    let gates = ["forward.update_gate.input", "reverse.new_gate.input"];
    check(gru, "Gru", gates, |it| Recurrent::try_from(it));
    let lstm = BiLstmConfig::new(5, 7, true).init(device);
    let gates = ["forward.cell_gate.input", "reverse.input_gate.hidden"];
    check(lstm, "Lstm", gates, |it| Recurrent::try_from(it));
}

#[test]
fn modules_that_compute_something_else_are_refused() {
    let device = &device::plain()[0].clone().autodiff();
    let gru = |config: GruConfig| RecurrentLayer::try_from(&config.init(device)).unwrap_err();
    let lstm = |config: LstmConfig| RecurrentLayer::try_from(&config.init(device)).unwrap_err();
    let gru_config = || GruConfig::new(2, 3, true);
    let lstm_config = || LstmConfig::new(2, 3, true);
    let mut half_frozen = gru_config().init(device);
    half_frozen.update_gate = half_frozen.update_gate.no_grad();
    #[rustfmt::skip]
    let cases = [
        (gru(gru_config().with_clip(Some(1.0))), "Gru expected no `clip`"),
        (RecurrentLayer::try_from(&half_frozen).unwrap_err(), "Gru expected all gates or none to require gradients"),
        (lstm(lstm_config().with_reverse(true)), "Lstm expected not to be reversed"),
        (lstm(lstm_config().with_input_forget(true)), "a forget gate of its own"),
        (lstm(lstm_config().with_clip(Some(1.0))), "Lstm expected no `clip`"),
    ];
    for (error, expected) in cases {
        assert_says(error, expected);
    }
}
