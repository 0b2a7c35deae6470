//! The attentions and their scores. Additive ones have the names of D2L's `AdditiveAttention`.

use attention_core::{
    AdditiveScore, BiaffineScore, BilinearScore, ConcatScore, CosineScore, CoverageAttention,
    DotProductScore, GaussianScore, LocationAttention, MonotonicAttention, ProjectedScore,
    QkNormScore,
};
use burn::tensor::Tensor;
use burn_fused_layers::harness::parameter::value;

use super::state_dict::{Parameters, StateDict};
use crate::attention::{AnyAttention, AnyScore};

impl Parameters for AnyAttention {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        match self {
            Self::Additive(it) | Self::Normalized(it) | Self::Sparse(it) => {
                it.score.add_to(tensors, at);
            }
            Self::Dot(it) => it.score.add_to(tensors, at),
            Self::Concat(it) => it.score.add_to(tensors, at),
            Self::Bilinear(it) => it.score.add_to(tensors, at),
            Self::Biaffine(it) => it.score.add_to(tensors, at),
            Self::Projected(it) => it.score.add_to(tensors, at),
            Self::Cosine(it) => it.score.add_to(tensors, at),
            Self::QkNorm(it) => it.score.add_to(tensors, at),
            Self::Gaussian(it) => it.score.add_to(tensors, at),
            // It has no parameters.
            Self::Kernel(_) => {}
            Self::Heads(it) => it.add_to(tensors, at),
            Self::Location(it) => it.add_to(tensors, at),
            Self::Coverage(it) => it.add_to(tensors, at),
            Self::Monotonic(it) => it.add_to(tensors, at),
        }
    }
}

impl Parameters for AnyScore {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        match self {
            Self::Additive(it) | Self::Normalized(it) => it.add_to(tensors, at),
            Self::Dot(it) => it.add_to(tensors, at),
            Self::Concat(it) => it.add_to(tensors, at),
            Self::Bilinear(it) => it.add_to(tensors, at),
            Self::Biaffine(it) => it.add_to(tensors, at),
            Self::Projected(it) => it.add_to(tensors, at),
            Self::Cosine(it) => it.add_to(tensors, at),
            Self::QkNorm(it) => it.add_to(tensors, at),
            Self::Gaussian(it) => it.add_to(tensors, at),
        }
    }
}

/// `W_q`, `W_k` and `w_v`; a normalised `w_v` is `weight_v` and `weight_g`, as of `torch.nn.utils.weight_norm`.
impl Parameters for AdditiveScore {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        let Self {
            query,
            key,
            value: vector,
            gain,
        } = self;
        query.add_to(tensors, &format!("{at}W_q."));
        key.add_to(tensors, &format!("{at}W_k."));
        match gain {
            Some(gain) => {
                let direction = value(&vector.weight).transpose();
                tensors.add(format!("{at}w_v.weight_v"), direction);
                tensors.add(format!("{at}w_v.weight_g"), value(gain).reshape([1, 1]));
            }
            None => vector.add_to(tensors, &format!("{at}w_v.")),
        }
    }
}

/// It has none.
impl Parameters for DotProductScore {
    fn add_to(&self, _: &mut StateDict, _: &str) {}
}

/// `hidden`, a linear layer of query and key concatenated, and `v`.
impl Parameters for ConcatScore {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        self.hidden.add_to(tensors, &format!("{at}hidden."));
        self.value.add_to(tensors, &format!("{at}v."));
    }
}

/// `bilinear`: a `torch.nn.Bilinear` of query and key without bias, whose `weight[0]` is M.
impl Parameters for BilinearScore {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        let matrix = value(&self.query.weight).unsqueeze::<3>();
        tensors.add(format!("{at}bilinear.weight"), matrix);
    }
}

/// `bilinear`: a `torch.nn.Bilinear` of `[query, 1]` and `[key, 1]` without bias, whose `weight[0]` is
/// `[[M, u], [v, b]]`.
impl Parameters for BiaffineScore {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        let of_query = Tensor::cat(
            vec![value(&self.query.weight), value(&self.offset.weight)],
            1,
        );
        let biases = [&self.query, &self.offset].map(|layer| layer.bias.as_ref().map(value));
        let of_key = Tensor::cat(biases.into_iter().flatten().collect(), 0);
        let matrix = Tensor::cat(vec![of_query, of_key.unsqueeze()], 0);
        tensors.add(format!("{at}bilinear.weight"), matrix.unsqueeze::<3>());
    }
}

/// `W_q` and `W_k`.
impl Parameters for ProjectedScore {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        self.query.add_to(tensors, &format!("{at}W_q."));
        self.key.add_to(tensors, &format!("{at}W_k."));
    }
}

/// `temperature`, `[1]`.
impl Parameters for CosineScore {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        if let Some(temperature) = &self.temperature {
            tensors.add_parameter(format!("{at}temperature"), temperature);
        }
    }
}

/// `q_norm` and `k_norm`: each a `torch.nn.RMSNorm`.
impl Parameters for QkNormScore {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        tensors.add_parameter(format!("{at}q_norm.weight"), &self.query);
        tensors.add_parameter(format!("{at}k_norm.weight"), &self.key);
    }
}

/// `inverse_width`, `[1]`.
impl Parameters for GaussianScore {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        if let Some(inverse_width) = &self.inverse_width {
            tensors.add_parameter(format!("{at}inverse_width"), inverse_width);
        }
    }
}

/// `W_q`, `W_k` and `w_v`; `filters`: a `torch.nn.Conv1d` without bias, and `W_f` from filters to hidden units.
impl Parameters for LocationAttention {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        self.query.add_to(tensors, &format!("{at}W_q."));
        self.key.add_to(tensors, &format!("{at}W_k."));
        self.value.add_to(tensors, &format!("{at}w_v."));
        tensors.add_parameter(format!("{at}filters.weight"), &self.filters.weight);
        self.location.add_to(tensors, &format!("{at}W_f."));
    }
}

/// `W_q`, `W_k` and `w_v`, and `W_c` from the coverage of a key to hidden units.
impl Parameters for CoverageAttention {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        self.query.add_to(tensors, &format!("{at}W_q."));
        self.key.add_to(tensors, &format!("{at}W_k."));
        self.value.add_to(tensors, &format!("{at}w_v."));
        self.coverage.add_to(tensors, &format!("{at}W_c."));
    }
}

/// Those of the score, and `offset`, `[1]`.
impl Parameters for MonotonicAttention<AdditiveScore> {
    fn add_to(&self, tensors: &mut StateDict, at: &str) {
        self.score.add_to(tensors, at);
        tensors.add_parameter(format!("{at}offset"), &self.offset);
    }
}
