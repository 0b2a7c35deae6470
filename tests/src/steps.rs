//! A decoder's steps through an alignment.

use std::collections::BTreeMap;

use attention_core::stateful::{
    CoverageAttentionConfig, LocationAttentionConfig, LocationFeatures, MonotonicAttentionConfig,
    StatefulAttention,
};
use burn::tensor::{DType, Device, Tensor};

use crate::{Array, Case, MaskSpec, Outcome, parameters, reference};

/// Queries that attend to keys and values one after the other, and the parameters of the alignment.
#[derive(Clone, Debug)]
pub struct Steps {
    /// The name of the alignment, as in [`Steps::NAMES`].
    pub name: String,
    /// `queries [batch, steps, query_size]`, `keys` and `values`.
    pub inputs: BTreeMap<String, Array>,
    /// By their paths in the module, in Burn's layout.
    pub parameters: BTreeMap<String, Array>,
    /// The gradients that `context`, `weights` and perhaps `penalty` receive.
    pub received: BTreeMap<String, Array>,
    /// The keys that queries attend to.
    pub mask: MaskSpec,
}

/// A check of any alignment: closures cannot be generic.
pub trait StepsCheck {
    /// Checks `attention`, which `steps` describes.
    fn check<A: StatefulAttention>(&self, attention: A, steps: &Steps, device: &Device);
}

impl Steps {
    /// Every alignment there is.
    pub const NAMES: [&'static str; 5] = [
        "location_previous",
        "location_cumulative",
        "location_both",
        "coverage",
        "monotonic",
    ];

    /// PyTorch's inputs and results.
    pub fn references() -> Vec<(Self, Outcome)> {
        reference("alignment").iter().map(Self::of_case).collect()
    }

    /// One problem for each alignment, under `mask`.
    pub fn all(mask: &MaskSpec) -> Vec<Self> {
        let mut all: Vec<_> = Self::references()
            .into_iter()
            .map(|(steps, _)| steps)
            .collect();
        all.iter_mut().for_each(|steps| steps.mask = mask.clone());
        all
    }

    fn of_case(case: &Case) -> (Self, Outcome) {
        let mut steps = Self {
            name: case.name.clone(),
            inputs: BTreeMap::new(),
            parameters: BTreeMap::new(),
            received: BTreeMap::new(),
            mask: case.mask.clone(),
        };
        for (name, array) in &case.inputs {
            match (name.as_str(), name.strip_prefix("grad_")) {
                (_, Some(output)) => steps.received.insert(output.into(), array.clone()),
                ("queries" | "keys" | "values", _) => {
                    steps.inputs.insert(name.clone(), array.clone())
                }
                _ => steps.parameters.insert(name.clone(), layout(array)),
            };
        }
        let mut expected = case.outputs.clone();
        for (name, array) in &case.gradients {
            let ours = match steps.parameters.contains_key(name) {
                true => layout(array),
                false => array.clone(),
            };
            expected.insert(format!("grad {name}"), ours);
        }
        (steps, expected)
    }

    /// Runs `check` on the alignment with these parameters.
    pub fn with_attention(&self, device: &Device, dtype: DType, check: &impl StepsCheck) {
        let axes = |layer: &str| {
            let own = self.parameters.get(layer);
            let of_score = || &self.parameters[&format!("score.{layer}")];
            let shape = &own.unwrap_or_else(of_score).shape;
            [shape[0], shape[1]]
        };
        let [query_size, num_hiddens] = axes("query.weight");
        let [key_size, _] = axes("key.weight");
        let location = |features| {
            let filters = &self.parameters["filters.weight"].shape;
            let attention = LocationAttentionConfig::new(query_size, key_size, num_hiddens)
                .with_filters(filters[0])
                .with_kernel_size(filters[2])
                .with_features(features)
                .init(device);
            self.check(attention, device, dtype, check)
        };
        match self.name.as_str() {
            "location_previous" => location(LocationFeatures::Previous),
            "location_cumulative" => location(LocationFeatures::Cumulative),
            "location_both" => location(LocationFeatures::Both),
            "coverage" => {
                let config = CoverageAttentionConfig::new(query_size, key_size, num_hiddens);
                self.check(config.init(device), device, dtype, check)
            }
            "monotonic" => {
                // Without noise a run can be repeated.
                let config = MonotonicAttentionConfig::new().with_noise(0.0);
                let attention = config.init_additive(query_size, key_size, num_hiddens, device);
                self.check(attention, device, dtype, check)
            }
            other => panic!("no alignment is called {other}"),
        }
    }

    fn check<A: StatefulAttention>(
        &self,
        attention: A,
        device: &Device,
        dtype: DType,
        check: &impl StepsCheck,
    ) {
        let mut loaded = 0;
        let attention = parameters::changed(parameters::cast(attention, dtype), |path, old| {
            let array = self.parameters[path].clone();
            assert_eq!(array.shape, old.shape, "{path}");
            loaded += 1;
            array
        });
        assert_eq!(loaded, self.parameters.len(), "{}", self.name);
        check.check(attention, self, device);
    }

    /// `context` and `weights` of all steps, `penalty` if there is one, and on a training device the gradients of
    /// inputs and parameters.
    pub fn run(&self, device: &Device, dtype: DType) -> Outcome {
        let run = Run(dtype, std::cell::RefCell::default());
        self.with_attention(device, dtype, &run);
        run.1.into_inner()
    }

    /// The sum over outputs times the gradients they receive, of a finished run.
    pub fn loss(&self, outcome: &Outcome) -> f64 {
        let parts = self.received.iter();
        parts.map(|(name, array)| outcome[name].dot(array)).sum()
    }

    /// An input of the steps.
    pub fn input(&self, name: &str, device: &Device, dtype: DType) -> Tensor<3> {
        self.inputs[name].tensor(device, dtype)
    }
}

/// PyTorch keeps the weight of a linear layer as `[out, in]`, Burn as `[in, out]`.
fn layout(array: &Array) -> Array {
    match array.shape.len() {
        2 => array.permute(&[1, 0]),
        _ => array.clone(),
    }
}

struct Run(DType, std::cell::RefCell<Outcome>);

impl StepsCheck for Run {
    fn check<A: StatefulAttention>(&self, attention: A, steps: &Steps, device: &Device) {
        let names = ["queries", "keys", "values"];
        let inputs = names.map(|name| steps.inputs[name].leaf::<3>(device, self.0));
        let [queries, keys, values] = inputs.clone();
        let memory = attention.prepare(keys, values, steps.mask.mask(device));
        let mut state = attention.initial_state(&memory);
        let (mut contexts, mut weights) = (Vec::new(), Vec::new());
        for step in 0..queries.dims()[1] {
            let query = queries.clone().narrow(1, step, 1);
            let (output, next) = attention.step_with_weights(query, &memory, state);
            contexts.push(output.context);
            weights.push(output.weights);
            state = next;
        }
        let (context, weights) = (Tensor::cat(contexts, 1), Tensor::cat(weights, 1));
        let penalty = attention.penalty(&state);

        let mut outcome = self.1.borrow_mut();
        outcome.insert("context".into(), Array::read(context.clone()));
        outcome.insert("weights".into(), Array::read(weights.clone()));
        if let Some(penalty) = &penalty {
            outcome.insert("penalty".into(), Array::read(penalty.clone()));
        }
        if device.is_autodiff() {
            let received = |name: &str| steps.received[name].tensor::<3>(device, self.0);
            let mut loss =
                (context * received("context")).sum() + (weights * received("weights")).sum();
            if let Some(penalty) = penalty {
                let received = steps.received["penalty"].tensor::<1>(device, self.0);
                loss = loss + (penalty * received).sum();
            }
            let gradients = loss.backward();
            let gradients = Some(&gradients);
            for (name, tensor) in names.into_iter().zip(inputs) {
                let gradient = parameters::gradient(&tensor, gradients);
                outcome.insert(format!("grad {name}"), gradient);
            }
            let of_parameters = parameters::gradients(&attention, gradients).into_iter();
            outcome.extend(of_parameters.map(|(name, of)| (format!("grad {name}"), of)));
        }
    }
}
