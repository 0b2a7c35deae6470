//! The frameworks of *Dive into Deep Learning*, and Marian. A linear layer is `[out, in]` in PyTorch and MXNet, and
//! `[in, out]` elsewhere.

use attention_core::score::DotProductScore;
use attention_core::{AdditiveAttention, MultiHeadAttention};
use burn_fused_layers::recurrent::{CellKind, Recurrent};

use super::Role::*;
use super::{Entries, Package, Parts, package};

/// *Dive into Deep Learning* 1.0.3: its `AdditiveAttention`, its `MultiHeadAttention`, whose number of heads no file
/// says ([`Package::with_num_heads`]), and the GRU of its encoder and decoder. `DotProductAttention` has no parameters.
///
/// A prefix is the path of a module: `"decoder.attention."`, or where names have slashes `"params/decoder/attention/"`.
pub mod d2l {
    use super::*;

    const ADDITIVE_OUT_IN: Entries = &[
        ("W_q.weight", Query, "A Q"), ("W_k.weight", Key, "A D"), ("w_v.weight", Energy, "1 A"),
        ("W_q.bias", Bias, "A?"), ("W_k.bias", Bias, "A?"),
    ];
    const ADDITIVE_IN_OUT: Entries = &[
        ("W_q.weight|W_q/kernel|W_q/vars/0", Query, "Q A"), ("W_k.weight|W_k/kernel|W_k/vars/0", Key, "D A"),
        ("w_v.weight|w_v/kernel|w_v/vars/0", Energy, "A 1"),
    ];
    const HEADS_OUT_IN: Entries = &[
        ("W_q.weight", Query, "NS Q"), ("W_k.weight", Key, "NS D"), ("W_v.weight", Value, "NU V"),
        ("W_o.weight", Output, "O NU"), ("W_q.bias", QueryBias, "NS?"), ("W_k.bias", KeyBias, "NS?"),
        ("W_v.bias", ValueBias, "NU?"), ("W_o.bias", OutputBias, "O?"),
    ];
    const HEADS_IN_OUT: Entries = &[
        ("W_q.weight|W_q/kernel|W_q/vars/0", Query, "Q NS"), ("W_q.bias|W_q/bias|W_q/vars/1", QueryBias, "NS?"),
        ("W_k.weight|W_k/kernel|W_k/vars/0", Key, "D NS"), ("W_k.bias|W_k/bias|W_k/vars/1", KeyBias, "NS?"),
        ("W_v.weight|W_v/kernel|W_v/vars/0", Value, "V NU"), ("W_v.bias|W_v/bias|W_v/vars/1", ValueBias, "NU?"),
        ("W_o.weight|W_o/kernel|W_o/vars/0", Output, "NU O"), ("W_o.bias|W_o/bias|W_o/vars/1", OutputBias, "O?"),
    ];
    const GATES: Entries = &[
        ("weight_ih_l#|_unfused.#.i2h_weight|l#_i2h_weight", Input, "3H I"),
        ("weight_hh_l#|_unfused.#.h2h_weight|l#_h2h_weight", Hidden, "3H H"),
        ("bias_ih_l#|_unfused.#.i2h_bias|l#_i2h_bias", InputBias, "3H?"),
        ("bias_hh_l#|_unfused.#.h2h_bias|l#_h2h_bias", HiddenBias, "3H?"),
    ];
    /// Under these names Paddle has the same tensors once more.
    const AGAIN: Entries = &[
        ("#.cell.weight_ih", Ignored, "?"), ("#.cell.weight_hh", Ignored, "?"), ("#.cell.bias_ih", Ignored, "?"),
        ("#.cell.bias_hh", Ignored, "?"),
    ];
    const CELLS: Entries = &[
        ("cell/cells/gru_cell~/vars/0", Input, "I 3H"), ("cell/cells/gru_cell~/vars/1", Hidden, "H 3H"),
        ("cell/cells/gru_cell~/vars/2", Biases, "2 3H?"),
    ];
    const SCANS: Entries = &[
        ("ScanGRUCell_#/ir/kernel", Input, "I H"), ("ScanGRUCell_#/iz/kernel", Input, "I H"),
        ("ScanGRUCell_#/in/kernel", Input, "I H"), ("ScanGRUCell_#/hr/kernel", Hidden, "H H"),
        ("ScanGRUCell_#/hz/kernel", Hidden, "H H"), ("ScanGRUCell_#/hn/kernel", Hidden, "H H"),
        ("ScanGRUCell_#/ir/bias", InputBias, "H"), ("ScanGRUCell_#/iz/bias", InputBias, "H"),
        ("ScanGRUCell_#/in/bias", InputBias, "H"), ("ScanGRUCell_#/hn/bias", HiddenBias, "H"),
    ];

    macro_rules! framework {
        ($(#[$doc:meta])* $name:ident: $additive:ident, $heads:ident, [$($gru:ident),*], $gates:expr) => {
            $(#[$doc])*
            pub mod $name {
                use super::*;

                /// `AdditiveAttention`.
                pub const ADDITIVE: Package<AdditiveAttention> =
                    package("D2L's AdditiveAttention", &[$additive], 1.0, Parts::additive);
                /// `MultiHeadAttention`.
                pub const MULTI_HEAD: Package<MultiHeadAttention<DotProductScore>> =
                    package("D2L's MultiHeadAttention", &[$heads], 1.0, Parts::multi_head);
                /// The GRU.
                pub const GRU: Package<Recurrent> =
                    package("D2L's GRU", &[$($gru),*], 1.0, |file| file.recurrent(CellKind::Gru, $gates));
            }
        };
    }

    framework! {
        /// PyTorch, by `torch.save(net.state_dict(), ..)`, `torch.jit.save` or `torch.export.save`.
        pytorch: ADDITIVE_OUT_IN, HEADS_OUT_IN, [GATES], &[0, 1, 2]
    }
    framework! {
        /// MXNet, by `net.save_parameters(..)`: names and axes of the attentions are PyTorch's.
        mxnet: ADDITIVE_OUT_IN, HEADS_OUT_IN, [GATES], &[0, 1, 2]
    }
    framework! {
        /// TensorFlow, by Keras' `net.save_weights("net.weights.h5")`: `"decoder/attention/"`, or of a layer of a model
        /// `"layers/additive_attention/"`. Other files of Keras call D2L's layers by a count, and not by what they are.
        tensorflow: ADDITIVE_IN_OUT, HEADS_IN_OUT, [CELLS], &[1, 0, 2]
    }
    framework! {
        /// JAX, by `flax.serialization.to_bytes(variables)`: `"params/decoder/attention/"`.
        jax: ADDITIVE_IN_OUT, HEADS_IN_OUT, [SCANS], &[0, 1, 2]
    }
    framework! {
        /// Paddle, by `paddle.save(net.state_dict(), ..)`.
        paddle: ADDITIVE_IN_OUT, HEADS_IN_OUT, [GATES, AGAIN], &[0, 1, 2]
    }
}

/// Keras 3.15.1 and 2.15.0, `keras.layers`. The prefix is a layer's path: `"layers/gru/"` in a `.keras` or
/// `.weights.h5`, where it has the name of its class and a count, and `"model_weights/gru/gru/"` in an `.h5`, where it
/// has its own. Also in a file of safetensors' `save_file({w.path: w.numpy() for w in model.weights}, ..)`, or of
/// `torch.save(model.state_dict(), ..)` on PyTorch; there it is `"gru/"`.
///
/// `Attention` has no parameters, but for `scale` with `use_scale=True`: a factor of the scores.
pub mod keras {
    use super::*;

    /// `AdditiveAttention`, `scale . tanh(query + key)`: additive attention, whose projections are the identity.
    pub const ADDITIVE: Package<AdditiveAttention> =
        package("Keras' AdditiveAttention", &[&[("scale|vars/0", Energy, "A")]], 1.0, Parts::additive);

    /// `MultiHeadAttention`; also Flax' `MultiHeadDotProductAttention`.
    pub const MULTI_HEAD: Package<MultiHeadAttention<DotProductScore>> = package("Keras' MultiHeadAttention", &[&[
        ("query/kernel|query_dense/vars/0|_query_dense/vars/0", Query, "Q N S"),
        ("query/bias|query_dense/vars/1|_query_dense/vars/1", QueryBias, "N S?"),
        ("key/kernel|key_dense/vars/0|_key_dense/vars/0", Key, "D N S"),
        ("key/bias|key_dense/vars/1|_key_dense/vars/1", KeyBias, "N S?"),
        ("value/kernel|value_dense/vars/0|_value_dense/vars/0", Value, "V N U"),
        ("value/bias|value_dense/vars/1|_value_dense/vars/1", ValueBias, "N U?"),
        ("attention_output/kernel|output_dense/vars/0|_output_dense/vars/0|out/kernel", Output, "N U O"),
        ("attention_output/bias|output_dense/vars/1|_output_dense/vars/1|out/bias", OutputBias, "O?"),
    ]], 1.0, Parts::multi_head);

    /// `GRU` with its default `reset_after=True`.
    pub const GRU: Package<Recurrent> = package("Keras' GRU", &[&[
        ("gru_cell/kernel|cell/vars/0", Input, "I 3H"), ("gru_cell/recurrent_kernel|cell/vars/1", Hidden, "H 3H"),
        ("gru_cell/bias|cell/vars/2", Biases, "2 3H?"),
    ]], 1.0, |file| file.recurrent(CellKind::Gru, &[1, 0, 2]));

    /// `LSTM`.
    pub const LSTM: Package<Recurrent> = package("Keras' LSTM", &[&[
        ("lstm_cell/kernel|cell/vars/0", Input, "I 4H"), ("lstm_cell/recurrent_kernel|cell/vars/1", Hidden, "H 4H"),
        ("lstm_cell/bias|cell/vars/2", InputBias, "4H?"),
    ]], 1.0, |file| file.recurrent(CellKind::Lstm, &[0, 1, 2, 3]));
}

/// Marian 1.12.42, `--type s2s`, in its `model.npz`.
pub mod marian {
    use super::*;

    /// The attention of its recurrent decoder: additive attention. The prefix is `"decoder_"`.
    pub const RNN_ATTENTION: Package<AdditiveAttention> = package("Marian's attention", &[&[
        ("W_comb_att", Query, "Q A"), ("Wc_att", Key, "D A"), ("b_att", Bias, "1 A"), ("U_att", Energy, "A 1"),
        ("*", Ignored, "?"),
    ]], 1.0, Parts::additive);
}
