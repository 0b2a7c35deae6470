//! Files that depend on the seed alone: numbered parameters, and the optimizer's states in the order of the parameters.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, Param, ParamId};
use burn::optim::ModuleOptimizer;
use burn::store::RecordError;
use burn::tensor::{Bool, Bytes, Int, Tensor};
use burn_pack::{Reader, Writer};

/// The file of an optimizer's state, in the order of parameters; Burn's own order differs from run to run.
pub(super) fn optimizer_bytes(optimizer: &ModuleOptimizer) -> Result<Bytes, RecordError> {
    let reader = Reader::from_bytes(optimizer.into_bytes()?)?;
    let (scalars, paths) = (reader.scalars().clone(), reader.metadata().clone());
    let mut tensors = reader.into_tensors()?;
    tensors.sort_by(|a, b| (a.param_id, &a.name).cmp(&(b.param_id, &b.name)));
    let mut writer = Writer::new(tensors);
    for (key, value) in &scalars {
        writer = writer.with_scalar(key, *value);
    }
    for (key, value) in &paths {
        writer = writer.with_metadata(key, value);
    }
    Ok(writer.into_bytes()?)
}

/// Numbers the parameters of a module from 1 on, in their order, to replace Burn's random ids: with the same seed,
/// training then writes the same files. A parameter that the module contains twice remains one.
pub(super) fn number_parameters<M: Module>(module: M) -> M {
    module.map(&mut Numbers::default())
}

#[derive(Default)]
struct Numbers(HashMap<ParamId, ParamId>);

impl Numbers {
    fn of(&mut self, id: ParamId) -> ParamId {
        let next = ParamId::from(self.0.len() as u64 + 1);
        *self.0.entry(id).or_insert(next)
    }
}

impl ModuleMapper for Numbers {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let (id, value, mapper) = param.consume();
        Param::from_mapped_value(self.of(id), value, mapper)
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        let (id, value, mapper) = param.consume();
        Param::from_mapped_value(self.of(id), value, mapper)
    }

    fn map_bool<const D: usize>(
        &mut self,
        param: Param<Tensor<D, Bool>>,
    ) -> Param<Tensor<D, Bool>> {
        let (id, value, mapper) = param.consume();
        Param::from_mapped_value(self.of(id), value, mapper)
    }
}

#[cfg(test)]
mod tests {
    use burn::module::list_param_ids;
    use burn::nn::{Linear, LinearConfig};

    use super::*;
    use crate::device::test_device;

    #[test]
    fn parameters_are_numbered_and_shared_ones_remain_one() {
        let linear = || LinearConfig::new(2, 3).init(&test_device().autodiff());
        let shared: Linear = linear();
        let module = number_parameters(vec![shared.clone(), linear(), shared.clone()]);
        let ids: Vec<u64> = list_param_ids(&module).iter().map(ParamId::val).collect();
        assert_eq!(ids, [1, 2, 3, 4, 1, 2]);
        assert!(module[2].weight.val().is_require_grad());
        let [before, after] = [&shared, &module[2]].map(|it| it.weight.val().into_data());
        assert_eq!(before, after);
    }
}
