//! From the tensors of a file to a module.

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::harness::wide::wide;

use super::shapes::Sizes;
use super::{Entry, OutputLayer, Role, WithOutput};
use crate::attention::DotProductAttention;
use crate::attention::{AdditiveAttention, Attention};
use crate::attention_config::DotProductAttentionConfig;
use crate::import::state_dict::StateDict;
use crate::normalizer::Normalizer;
use crate::score::{
    AdditiveScore, BilinearScore, BilinearScoreConfig, ProjectedScore, ProjectedScoreConfig,
};
use crate::stateful::{
    CoverageAttention, CoverageAttentionConfig, ForwardAttention, ForwardAttentionConfig,
    LocationAttention, LocationAttentionConfig, LocationFeatures, Start, StatefulAttention,
};

/// The tensors of one attention, as matrices `[in, out]`, in f32 at least.
pub(super) struct Parts {
    tensors: Vec<(Role, Tensor<2>)>,
    sizes: Sizes,
    factor: f64,
    device: Device,
}

impl Parts {
    /// # Errors
    /// If a tensor cannot be read, its shape does not fit those before it, or a kernel's size is even.
    pub(super) fn read(
        file: &StateDict,
        entries: impl Iterator<Item = &'static Entry>,
        factor: f64,
        device: &Device,
    ) -> Result<Self, String> {
        let options = (device, wide(float_type(device)));
        let mut parts = Self {
            tensors: Vec::new(),
            sizes: Sizes::default(),
            factor,
            device: device.clone(),
        };
        for entry in entries.filter(|entry| file.contains(entry.name)) {
            let got = file.shape(entry.name)?;
            let fitted = parts.sizes.fit(entry.shape, &got);
            fitted.map_err(|expected| {
                let full = file.full(entry.name);
                format!("`{full}`: expected the shape {expected}, got {got:?}")
            })?;
            if entry.role == Role::Filters && parts.size('W').is_multiple_of(2) {
                let full = file.full(entry.name);
                return Err(format!(
                    "`{full}`: expected an odd kernel size, got {got:?}"
                ));
            }
            let rows = file.rows(entry.name, &got, options)?;
            let is_transposed = entry.shape.starts_with(entry.role.outputs()) && got.len() == 2
                || entry.role == Role::Energy && got.len() == 1;
            let matrix = if is_transposed {
                rows.transpose()
            } else {
                rows
            };
            parts.tensors.push((entry.role, matrix));
        }
        Ok(parts)
    }

    pub(super) fn additive(&self) -> AdditiveAttention {
        let [query, key] = self.query_and_key();
        let gain = self.find(Role::Gain);
        let factor = if gain.is_some() { 1.0 } else { self.factor };
        let gain = gain.map(|gain| self.parameter(gain.reshape([1]) * self.factor));
        let score = AdditiveScore {
            query: self.linear(query, self.bias(Role::Bias)),
            key: self.linear(key, None),
            value: self.linear(self.tensor(Role::Energy) * factor, None),
            gain,
        };
        Attention::new(score, 0.0)
    }

    /// `w . tanh(query + key)`, without projections.
    pub(super) fn unprojected(&self) -> AdditiveAttention {
        let eye = || Tensor::eye(self.size('A'), &self.device);
        let score = AdditiveScore {
            query: self.linear(eye(), None),
            key: self.linear(eye(), None),
            value: self.linear(self.tensor(Role::Energy) * self.factor, None),
            gain: None,
        };
        Attention::new(score, 0.0)
    }

    pub(super) fn bilinear(&self) -> Attention<BilinearScore> {
        let [query_size, key_size] = self.tensor(Role::Bilinear).dims();
        let config = BilinearScoreConfig::new(query_size, key_size).with_scale(self.factor);
        let mut score = config.init(&self.device);
        score.query = self.linear(self.tensor(Role::Bilinear), self.bias(Role::QueryBias));
        Attention::new(score, 0.0)
    }

    /// A dot product of projections with biases; `factor` stands before the sum over the hidden units.
    pub(super) fn projected(&self, tanh: bool, factor: f64) -> Attention<ProjectedScore> {
        let [query_size, key_size, num_hiddens] = self.sizes();
        let config = ProjectedScoreConfig::new(query_size, key_size, num_hiddens)
            .with_tanh(tanh)
            .with_scale(Some(self.factor * factor));
        let mut score = config.init(&self.device);
        score.query = self.linear(self.tensor(Role::Query), self.bias(Role::QueryBias));
        score.key = self.linear(self.tensor(Role::Key), self.bias(Role::KeyBias));
        Attention::new(score, 0.0)
    }

    /// The size of a letter in the shapes.
    pub(super) fn size(&self, letter: char) -> usize {
        self.sizes.of(letter)
    }

    pub(super) fn dot_product(&self) -> DotProductAttention {
        let config = DotProductAttentionConfig::new();
        config.with_scale(Some(self.factor)).init()
    }

    pub(super) fn location(&self, features: LocationFeatures, start: Start) -> LocationAttention {
        let [query_size, key_size, num_hiddens] = self.sizes();
        let [filters, kernel_size] = ['C', 'W'].map(|size| self.size(size));
        let mut attention = LocationAttentionConfig::new(query_size, key_size, num_hiddens)
            .with_filters(filters)
            .with_kernel_size(kernel_size)
            .with_features(features)
            .with_start(start)
            .init(&self.device);
        let stored = self.tensor(Role::Filters);
        let channels = stored.dims()[1] / kernel_size;
        let filters = stored.reshape([filters, channels, kernel_size]);
        attention.filters.weight = self.parameter(filters);
        attention.location = self.linear(self.tensor(Role::Location), None);
        [attention.query, attention.key, attention.value] = self.energies();
        attention
    }

    pub(super) fn coverage(&self, start: Start) -> CoverageAttention {
        let [query_size, key_size, num_hiddens] = self.sizes();
        let mut attention = CoverageAttentionConfig::new(query_size, key_size, num_hiddens)
            .with_start(start)
            .init(&self.device);
        attention.coverage = self.linear(self.tensor(Role::Coverage), None);
        [attention.query, attention.key, attention.value] = self.energies();
        attention
    }

    /// The same with weights that are sigmoids over their sum, where the bias of the energies counts.
    pub(super) fn normalized_sigmoid(&self, mut attention: LocationAttention) -> LocationAttention {
        let bias = self.bias(Role::EnergyBias);
        attention.value.bias = bias.map(|bias| self.parameter(bias * self.factor));
        attention.with_normalizer(Normalizer::NormalizedSigmoid)
    }

    /// Query, key and value of a stateful attention, the biases with the key.
    fn energies(&self) -> [Linear; 3] {
        [
            self.linear(self.tensor(Role::Query), None),
            self.linear(self.tensor(Role::Key), self.bias(Role::Bias)),
            self.linear(self.tensor(Role::Energy) * self.factor, None),
        ]
    }

    fn sizes(&self) -> [usize; 3] {
        ['Q', 'D', 'A'].map(|size| self.size(size))
    }

    /// Forward attention; its transition agent, if the file has one, is the probability of `sign` times its sum.
    pub(super) fn forward<A: StatefulAttention>(
        &self,
        config: ForwardAttentionConfig,
        attention: A,
        sign: f64,
    ) -> ForwardAttention<A> {
        let mut forward = config.init(attention);
        let agent = self.find(Role::Agent).map(|weight| weight * sign);
        let bias = self.bias(Role::AgentBias).map(|bias| bias * sign);
        forward.agent = agent.map(|weight| self.linear(weight, bias));
        forward
    }

    /// The attention with the layer behind its context.
    pub(super) fn with_output<A: StatefulAttention>(
        &self,
        attention: A,
        reads_query: bool,
        tanh: bool,
    ) -> WithOutput<A> {
        let linear = self.linear(self.tensor(Role::Output), self.bias(Role::OutputBias));
        let output = OutputLayer {
            linear,
            reads_query,
            tanh,
        };
        WithOutput { attention, output }
    }

    /// The layers of query and key, or the parts of the one layer of both.
    fn query_and_key(&self) -> [Tensor<2>; 2] {
        match self.find(Role::KeyAndQuery) {
            Some(both) => {
                let [key_size, total] = [self.size('D'), both.dims()[0]];
                let part = |start, size| both.clone().narrow(0, start, size);
                [part(key_size, total - key_size), part(0, key_size)]
            }
            None => [Role::Query, Role::Key].map(|role| self.tensor(role)),
        }
    }

    fn find(&self, role: Role) -> Option<Tensor<2>> {
        let tensors = self.tensors.iter();
        let of_role = tensors.filter(|(of, _)| *of == role);
        of_role
            .map(|(_, tensor)| tensor.clone())
            .reduce(|sum, other| sum + other)
    }

    /// # Panics
    /// If the family has no tensor of this role.
    fn tensor(&self, role: Role) -> Tensor<2> {
        self.find(role)
            .unwrap_or_else(|| panic!("expected a family with a tensor for {role:?}"))
    }

    /// The sum of the biases of a role, if there is one.
    fn bias(&self, role: Role) -> Option<Tensor<1>> {
        self.find(role).map(|bias| bias.squeeze_dim(0))
    }

    fn linear(&self, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Linear {
        Linear {
            weight: self.parameter(weight),
            bias: bias.map(|bias| self.parameter(bias)),
        }
    }

    fn parameter<const D: usize>(&self, tensor: Tensor<D>) -> Param<Tensor<D>> {
        Param::from_tensor(tensor.cast(float_type(&self.device)))
    }
}

impl Role {
    /// The axis of the outputs: a matrix that begins with it is `[out, in]`, as PyTorch's are.
    fn outputs(self) -> &'static str {
        match self {
            Self::Energy | Self::Agent => "1 ",
            Self::Bilinear => "D ",
            Self::Output => "O ",
            _ => "A ",
        }
    }
}

fn float_type(device: &Device) -> DType {
    device.settings().float_dtype.into()
}
