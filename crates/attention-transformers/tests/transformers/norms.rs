//! Normalizations as modules, beside Burn's layers with the same parameters, which are derived.

use attention_tests::device;
use attention_transformers::layer::NormConfig;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::nn::{LayerNormConfig, RmsNormConfig};
use burn::tensor::{Device, Tensor};

/// The steps of a traversal.
#[derive(Default)]
struct Steps(Vec<String>);

impl ModuleVisitor for Steps {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.0.push(format!("into {name} of {container_type}"));
    }

    fn exit_module(&mut self, name: &str, container_type: &str) {
        self.0.push(format!("out of {name} of {container_type}"));
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let (dims, trains) = (param.dims(), param.is_require_grad());
        let is_autodiff = param.device().is_autodiff();
        self.0.push(format!("{dims:?} {trains} {is_autodiff}"));
    }
}

impl ModuleMapper for Steps {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        ModuleVisitor::enter_module(self, name, container_type);
    }

    fn exit_module(&mut self, name: &str, container_type: &str) {
        ModuleVisitor::exit_module(self, name, container_type);
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        self.visit_float(&param);
        param
    }
}

/// The steps, sizes and devices of a module, and of all that its methods make of it.
fn described<M: Module>(module: M, training: &Device) -> Vec<(Vec<String>, usize, usize)> {
    let plain = &training.clone().inner();
    let all = [
        module.clone(),
        module.clone().fork(plain),
        module.clone().fork(training),
        module.clone().to_device(plain),
        module.valid(),
        module.valid().train(),
        module.clone().no_grad(),
        module.clone().no_grad().valid().train(),
        module.materialize(),
    ];
    let of_each = all.map(|module| {
        let (mut visited, mut mapped) = (Steps::default(), Steps::default());
        module.visit(&mut visited);
        let module = module.map(&mut mapped);
        let size = Module::num_params(&module);
        assert_eq!(visited.0, mapped.0);
        // Rms has no bias there.
        let is_gain = |step: &String| !step.contains("beta of Struct:RmsNorm");
        visited.0.retain(is_gain);
        (visited.0, size, module.devices().len())
    });
    of_each.into()
}

#[test]
fn a_norm_is_the_module_that_burns_layer_is() {
    device::each_training(|device| {
        for bias in [true, false] {
            let epsilon = 1e-5;
            let norm = NormConfig::Layer { epsilon, bias }.init(7, device);
            let display = norm.to_string();
            let size = if bias { 14 } else { 7 };
            for part in ["Norm {", &format!("params: {size}")] {
                assert!(display.contains(part), "{display}");
            }
            let theirs = LayerNormConfig::new(7).with_bias(bias).init(device);
            assert_eq!(described(norm, device), described(theirs, device));
        }
        let norm = NormConfig::rms().init(7, device);
        let theirs = RmsNormConfig::new(7).init(device);
        assert_eq!(described(norm, device), described(theirs, device));
    });
}
