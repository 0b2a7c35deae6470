//! Tensors of a file to a module.

use attention_core::score::{
    AdditiveScore, BilinearScore, BilinearScoreConfig, DotProductScore, ProjectedScore,
    ProjectedScoreConfig,
};
use attention_core::stateful::{
    CoverageAttention, CoverageAttentionConfig, ForwardAttention, ForwardAttentionConfig,
    LocationAttention, LocationAttentionConfig, LocationFeatures, Start, StatefulAttention,
};
use attention_core::{
    AdditiveAttention, Attention, DotProductAttention, DotProductAttentionConfig,
    MultiHeadAttention, MultiHeadAttentionConfig, Normalizer,
};
use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::harness::wide::wide;
use burn_fused_layers::recurrent::{CellKind, Recurrent, RecurrentConfig};

use super::names::Named;
use super::shapes::Sizes;
use super::{OutputLayer, Role, WithOutput};
use crate::Reason;
use crate::state_dict::StateDict;

/// The tensors of one attention, as matrices `[in, out]`, in f32 at least.
pub(super) struct Parts {
    /// The use of each tensor, and its layer.
    tensors: Vec<(Role, usize, Tensor<2>)>,
    pub(super) sizes: Sizes,
    factor: f64,
    device: Device,
    dtype: DType,
}

impl Parts {
    /// # Errors
    /// If a tensor cannot be read.
    pub(super) fn read(
        file: &StateDict,
        entries: &[Named],
        sizes: Sizes,
        (factor, device): (f64, &Device),
    ) -> Result<Self, Reason> {
        let dtype = device.settings().float_dtype.into();
        let mut tensors = Vec::new();
        for entry in entries {
            let (name, role) = (&entry.name, entry.role);
            let of_file = file.shape(name)?;
            let rows = file.rows(name, &of_file, (device, wide(dtype)))?;
            let matrix = match of_file[..] {
                // With a single direction.
                [1, from, to] if entry.shape.starts_with("1 ") => rows.reshape([from, to]),
                _ if role.is_transposed(entry.shape) => rows.transpose(),
                _ => rows,
            };
            tensors.push((role, entry.layer, matrix));
        }
        let device = device.clone();
        Ok(Self {
            tensors,
            sizes,
            factor,
            device,
            dtype,
        })
    }

    pub(super) fn additive(&self) -> AdditiveAttention {
        let [query, key] = self.query_and_key();
        let gain = self.find(Role::Gain);
        let factor = if gain.is_some() { 1.0 } else { self.factor };
        let score = AdditiveScore {
            query: self.linear(query, self.bias(Role::Bias)),
            key: self.linear(key, None),
            value: self.linear(self.tensor(Role::Energy) * factor, None),
            gain: gain.map(|gain| self.parameter(gain.reshape([1]) * self.factor)),
        };
        Attention::new(score, 0.0)
    }

    pub(super) fn bilinear(&self) -> Attention<BilinearScore> {
        let gain = self.find(Role::Gain).into_iter();
        let matrix = gain.fold(self.tensor(Role::Bilinear), Tensor::mul);
        let [query_size, key_size] = matrix.dims();
        let config = BilinearScoreConfig::new(query_size, key_size).with_scale(self.factor);
        let mut score = config.init(&self.device);
        score.query = self.linear(matrix, self.bias(Role::QueryBias));
        Attention::new(score, 0.0)
    }

    /// A dot product of projections with biases; `factor` multiplies the sum over the hidden units.
    pub(super) fn projected(&self, tanh: bool, factor: f64) -> Attention<ProjectedScore> {
        let [query_size, key_size, num_hiddens] = self.energy_sizes();
        let mut score = ProjectedScoreConfig::new(query_size, key_size, num_hiddens)
            .with_tanh(tanh)
            .with_scale(Some(self.factor * factor))
            .init(&self.device);
        score.query = self.layer(Role::Query, Role::QueryBias);
        score.key = self.layer(Role::Key, Role::KeyBias);
        Attention::new(score, 0.0)
    }

    pub(super) fn dot_product(&self) -> DotProductAttention {
        let config = DotProductAttentionConfig::new();
        config.with_scale(Some(self.factor)).init()
    }

    pub(super) fn location(&self, features: LocationFeatures, start: Start) -> LocationAttention {
        let [query_size, key_size, num_hiddens] = self.energy_sizes();
        let [filters, kernel_size] = ['C', 'W'].map(|letter| self.sizes.of(letter));
        let mut attention = LocationAttentionConfig::new(query_size, key_size, num_hiddens)
            .with_filters(filters)
            .with_kernel_size(kernel_size)
            .with_features(features)
            .with_start(start)
            .init(&self.device);
        let shape = [filters as i32, -1, kernel_size as i32];
        attention.filters.weight = self.parameter(self.tensor(Role::Filters).reshape(shape));
        attention.location = self.linear(self.tensor(Role::Location), None);
        [attention.query, attention.key, attention.value] = self.energies();
        attention
    }

    pub(super) fn coverage(&self, start: Start) -> CoverageAttention {
        let [query_size, key_size, num_hiddens] = self.energy_sizes();
        let mut attention = CoverageAttentionConfig::new(query_size, key_size, num_hiddens)
            .with_start(start)
            .init(&self.device);
        attention.coverage = self.linear(self.tensor(Role::Coverage), None);
        [attention.query, attention.key, attention.value] = self.energies();
        attention
    }

    /// `attention` with weights that are sigmoids divided by their sum, for which the bias of the energies matters.
    pub(super) fn normalized_sigmoid(&self, mut attention: LocationAttention) -> LocationAttention {
        let bias = self.bias(Role::EnergyBias);
        attention.value.bias = bias.map(|bias| self.parameter(bias * self.factor));
        attention.with_normalizer(Normalizer::NormalizedSigmoid)
    }

    /// `[query_size, key_size, num_hiddens]`
    fn energy_sizes(&self) -> [usize; 3] {
        ['Q', 'D', 'A'].map(|letter| self.sizes.of(letter))
    }

    /// The layers of query, key and value of a stateful attention, with the biases in the key's layer.
    fn energies(&self) -> [Linear; 3] {
        [
            self.linear(self.tensor(Role::Query), None),
            self.layer(Role::Key, Role::Bias),
            self.linear(self.tensor(Role::Energy) * self.factor, None),
        ]
    }

    /// Forward attention; its transition agent, if the file has one, gives the probability of `sign` times its sum.
    pub(super) fn forward<A: StatefulAttention>(
        &self,
        config: ForwardAttentionConfig,
        attention: A,
        sign: f64,
    ) -> ForwardAttention<A> {
        let mut forward = config.init(attention);
        let bias = self.bias(Role::AgentBias).map(|bias| bias * sign);
        let agent = self.find(Role::Agent);
        forward.agent = agent.map(|weight| self.linear(weight * sign, bias));
        forward
    }

    /// The attention with the layer applied to its context.
    pub(super) fn with_output<A: StatefulAttention>(
        &self,
        attention: A,
        reads_query: bool,
        tanh: bool,
    ) -> WithOutput<A> {
        let output = OutputLayer {
            linear: self.layer(Role::Output, Role::OutputBias),
            reads_query,
            tanh,
        };
        WithOutput { attention, output }
    }

    /// The two blocks of rows, with two sizes, of the layer applied to the context.
    pub(super) fn output_parts(&self, letters: [char; 2]) -> [Tensor<2>; 2] {
        let sizes = letters.map(|letter| self.sizes.of(letter)).to_vec();
        let parts = self.tensor(Role::Output).split_with_sizes(sizes, 0);
        parts.try_into().expect("a part of each size")
    }

    pub(super) fn multi_head(&self) -> MultiHeadAttention<DotProductScore> {
        let query = self.layer(Role::Query, Role::QueryBias);
        let value = self.layer(Role::Value, Role::ValueBias);
        let [[_, queries], [_, values]] = [&query, &value].map(|layer| layer.weight.dims());
        let num_heads = self.sizes.of('N');
        let mut attention = MultiHeadAttentionConfig::new(queries, num_heads)
            .with_value_head_size(Some(values / num_heads))
            .init(&self.device);
        [attention.query, attention.value] = [query, value];
        attention.key = self.layer(Role::Key, Role::KeyBias);
        let output = self.tensor(Role::Output).reshape([values as i32, -1]);
        attention.output = Some(self.linear(output, self.bias(Role::OutputBias)));
        attention
    }

    /// Recurrent layers; `order` has the positions of their gates in the file's order.
    pub(super) fn recurrent(&self, kind: CellKind, order: &[usize]) -> Recurrent {
        let layers = self.tensors.iter().map(|(_, layer, _)| layer + 1);
        let [input_size, size] = ['I', 'H'].map(|letter| self.sizes.of(letter));
        let config =
            RecurrentConfig::new(kind, input_size, size).with_layers(layers.max().unwrap_or(1));
        let mut recurrent = config.init(&self.device);
        for (index, layer) in recurrent.layers.iter_mut().enumerate() {
            let gates = |role| self.gates(role, index, order);
            let both = gates(Role::Biases);
            let linear = |weight, bias, row| {
                let own = both.clone().map(|both| both.narrow(0, row, 1));
                let bias = own.or_else(|| gates(bias)).map(|bias| bias.flatten(0, 1));
                self.linear(gates(weight).expect("a class with gates"), bias)
            };
            layer.input = linear(Role::Input, Role::InputBias, 0);
            layer.hidden = linear(Role::Hidden, Role::HiddenBias, 1);
        }
        recurrent
    }

    /// The gates of a layer in `order`; a file has them in one tensor or in several.
    fn gates(&self, role: Role, layer: usize, order: &[usize]) -> Option<Tensor<2>> {
        let parts: Vec<_> = self.of(role, layer).collect();
        let [rows, _] = parts.first()?.dims();
        let found: usize = parts.iter().map(|part| part.dims()[1]).sum();
        // Flax has a bias in the hidden projection only for a GRU's last gate.
        let missing = order.len() * self.sizes.of('H') - found;
        let zeros = || Tensor::zeros([rows, missing], (&self.device, parts[0].dtype()));
        let parts = (missing > 0).then(zeros).into_iter().chain(parts.clone());
        let gates = Tensor::cat(parts.collect(), 1).chunk(order.len(), 1);
        let gates = order.iter().map(|&place| gates[place].clone());
        Some(Tensor::cat(gates.collect(), 1))
    }

    /// The layers of query and key, or the parts of a single layer for both; the identity if there is none.
    fn query_and_key(&self) -> [Tensor<2>; 2] {
        match self.find(Role::KeyAndQuery) {
            Some(both) => {
                let [key_size, total] = [self.sizes.of('D'), both.dims()[0]];
                let part = |start, size| both.clone().narrow(0, start, size);
                [part(key_size, total - key_size), part(0, key_size)]
            }
            None => [Role::Query, Role::Key].map(|role| {
                let identity = || Tensor::eye(self.sizes.of('A'), &self.device);
                self.find(role).unwrap_or_else(identity)
            }),
        }
    }

    /// The sum of the tensors of a role, if there are any.
    fn find(&self, role: Role) -> Option<Tensor<2>> {
        self.of(role, 0).reduce(Tensor::add)
    }

    fn of(&self, role: Role, layer: usize) -> impl Iterator<Item = Tensor<2>> {
        let of_role = self.tensors.iter();
        let of_role = of_role.filter(move |(of, at, _)| *of == role && *at == layer);
        of_role.map(|(.., tensor)| tensor.clone())
    }

    pub(super) fn tensor(&self, role: Role) -> Tensor<2> {
        let tensor = self.find(role);
        tensor.unwrap_or_else(|| panic!("expected a family with a tensor for {role:?}"))
    }

    fn bias(&self, role: Role) -> Option<Tensor<1>> {
        self.find(role).map(|bias| bias.flatten(0, 1))
    }

    fn layer(&self, weight: Role, bias: Role) -> Linear {
        self.linear(self.tensor(weight), self.bias(bias))
    }

    fn linear(&self, weight: Tensor<2>, bias: Option<Tensor<1>>) -> Linear {
        Linear {
            weight: self.parameter(weight),
            bias: bias.map(|bias| self.parameter(bias)),
        }
    }

    pub(super) fn parameter<const D: usize>(&self, tensor: Tensor<D>) -> Param<Tensor<D>> {
        Param::from_tensor(tensor.cast(self.dtype))
    }
}

impl Role {
    /// Whether a tensor with this shape is `[out, in]`, as in PyTorch's layers, or a vector of weights.
    fn is_transposed(self, shape: &str) -> bool {
        match self {
            Self::Energy => shape != "A 1",
            Self::Bilinear => shape == "D Q",
            Self::Output => shape.starts_with("O "),
            _ => ["A ", "O ", "1 ", "NS ", "NU ", "3H ", "4H "]
                .iter()
                .any(|out| shape.starts_with(out)),
        }
    }
}
