//! The frameworks of *Dive into Deep Learning*, and Marian. Linear layers are `[out, in]` in PyTorch and MXNet, and
//! `[in, out]` elsewhere.

use attention_core::score::DotProductScore;
use attention_core::{AdditiveAttention, MultiHeadAttention};
use burn_fused_layers::recurrent::{CellKind, Recurrent};
use tensor_files::FileFormat;

use super::Role::*;
use super::{Entries, Package, Parts, package};

/// *Dive into Deep Learning* 1.0.3: its `AdditiveAttention`, its `MultiHeadAttention`, whose number of heads no file
/// has ([`Package::with_num_heads`]), and the GRU of its encoder and decoder. `DotProductAttention` has no parameters.
///
/// A prefix is the path of a module: `"decoder.attention."`, or with slashes in names `"params/decoder/attention/"`.
/// Modules take `[batch, steps, size]`, whatever the layout in the framework.
///
/// Using the class of another framework is an error if the file says which framework wrote it. Files of safetensors or
/// NumPy do not say so: with those, square weights would be transposed silently.
pub mod d2l {
    use super::*;

    /// Axes of the weights of `W_q`, `W_k` and `w_v` of the additive attention, and of the four layers of the heads.
    const OUT_IN: [&str; 7] = ["A Q", "A D", "1 A", "NS Q", "NS D", "NU V", "O NU"];
    const IN_OUT: [&str; 7] = ["Q A", "D A", "A 1", "Q NS", "D NS", "V NU", "NU O"];

    const GATES: Entries = &[
        ("weight_ih_l#", Input, "3H I"), ("weight_hh_l#", Hidden, "3H H"),
        ("bias_ih_l#", InputBias, "3H?"), ("bias_hh_l#", HiddenBias, "3H?"),
    ];
    const BLOCKS: Entries = &[
        ("_unfused.#.i2h_weight|l#_i2h_weight", Input, "3H I"), ("_unfused.#.h2h_weight|l#_h2h_weight", Hidden, "3H H"),
        ("_unfused.#.i2h_bias|l#_i2h_bias", InputBias, "3H?"), ("_unfused.#.h2h_bias|l#_h2h_bias", HiddenBias, "3H?"),
    ];
    /// Under these names Paddle stores the same tensors again.
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

    /// For each framework: the suffixes of the names of a weight and of a bias, the axes, the format that tells its
    /// files from another framework's with the same names, and the tensors and gate order of a GRU.
    macro_rules! framework {
        ($(#[$doc:meta])* $name:ident: $weight:literal $bias:literal $axes:ident, $writer:expr,
            $(#[$gru_doc:meta])* [$($gru:ident),*], $gates:expr) => {
            $(#[$doc])*
            pub mod $name {
                use super::*;

                /// `AdditiveAttention`.
                pub const ADDITIVE: Package<AdditiveAttention> = package("D2L's AdditiveAttention", &[&[
                    (concat!("W_q", $weight), Query, $axes[0]), (concat!("W_k", $weight), Key, $axes[1]),
                    (concat!("w_v", $weight), Energy, $axes[2]),
                    (concat!("W_q", $bias), Bias, "A?"), (concat!("W_k", $bias), Bias, "A?"),
                ]], 1.0, Parts::additive).written_by($writer);
                /// `MultiHeadAttention`.
                pub const MULTI_HEAD: Package<MultiHeadAttention<DotProductScore>> =
                    package("D2L's MultiHeadAttention", &[&[
                        (concat!("W_q", $weight), Query, $axes[3]), (concat!("W_q", $bias), QueryBias, "NS?"),
                        (concat!("W_k", $weight), Key, $axes[4]), (concat!("W_k", $bias), KeyBias, "NS?"),
                        (concat!("W_v", $weight), Value, $axes[5]), (concat!("W_v", $bias), ValueBias, "NU?"),
                        (concat!("W_o", $weight), Output, $axes[6]), (concat!("W_o", $bias), OutputBias, "O?"),
                    ]], 1.0, Parts::multi_head).written_by($writer);
                /// The GRU of the encoder, with all its layers.
                ///
                $(#[$gru_doc])*
                ///
                /// There is no LSTM; [`load_recurrent`](crate::load_recurrent) loads one by PyTorch's names.
                pub const GRU: Package<Recurrent> = package("D2L's GRU", &[$($gru),*], 1.0,
                    |file| file.recurrent(CellKind::Gru, $gates)).written_by($writer);
            }
        };
    }

    framework! {
        /// PyTorch, saved by `torch.save(net.state_dict(), ..)`, `torch.jit.save` or `torch.export.save`.
        pytorch: ".weight" ".bias" OUT_IN, Some(FileFormat::PyTorch),
        /// Names are `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, then with `l1`, .. The prefix is
        /// `"encoder.rnn.rnn."` in D2L's encoder, a `d2l.GRU` whose `rnn` is the layer, and `"decoder.rnn."` if the
        /// layer itself is the attribute.
        [GATES], &[0, 1, 2]
    }
    framework! {
        /// MXNet, saved by `net.save_parameters(..)`: names and axes of the attentions are PyTorch's.
        mxnet: ".weight" ".bias" OUT_IN, Some(FileFormat::MxNet),
        /// Names are `_unfused.0.i2h_weight`, `_unfused.0.h2h_weight`, `_unfused.0.i2h_bias`, `_unfused.0.h2h_bias`,
        /// then with `_unfused.1`, ..; or `l0_i2h_weight`, .., the names of the layer's attributes. The prefix is
        /// `"encoder.rnn.rnn."` in D2L's encoder, a `d2l.GRU` whose `rnn` is the layer, and `"encoder."` after
        /// `net.encoder = rnn.GRU(..)`. By default MXNet's layer has steps first; here examples are first.
        [BLOCKS], &[0, 1, 2]
    }
    framework! {
        /// TensorFlow, saved by Keras' `net.save_weights("net.weights.h5")`: `"decoder/attention/"`, or for a layer of
        /// a model `"layers/additive_attention/"`. Other files of Keras number D2L's layers instead.
        tensorflow: "/vars/0" "/vars/1" IN_OUT, None,
        /// Names are `cell/cells/gru_cell/vars/0` to `2`, then with `gru_cell_1`, .., as D2L's `RNN` of several
        /// `GRUCell`s has them: `"rnn/"`. For Keras' own `GRU`, see [`keras::GRU`](super::super::keras::GRU).
        [CELLS], &[1, 0, 2]
    }
    framework! {
        /// JAX, saved by `flax.serialization.to_bytes(variables)`: `"params/decoder/attention/"`.
        jax: "/kernel" "/bias" IN_OUT, None,
        /// Names are `ScanGRUCell_0/ir/kernel`, .., then with `ScanGRUCell_1`, ..: `"params/encoder/rnn/"`.
        [SCANS], &[0, 1, 2]
    }
    framework! {
        /// Paddle, saved by `paddle.save(net.state_dict(), ..)`: PyTorch's names, with weights `[in, out]`.
        paddle: ".weight" ".bias" IN_OUT, Some(FileFormat::Paddle),
        /// Names are PyTorch's, `weight_ih_l0`, ..; Paddle stores each tensor again, as `0.cell.weight_ih`.
        [GATES, AGAIN], &[0, 1, 2]
    }
}

/// Keras 3.15.1 and 2.15.0, `keras.layers`. The prefix is a layer's path:
///
/// - `"layers/gru/"` in a `.keras` or `.weights.h5`: the class and, from the second layer of it on, a number in the
///   order of `model.layers`, independent of the names given by the author or by Keras: `layers/gru_1` may be the layer
///   `gru`. In a user's own class Keras 3 uses attribute names, `"encoder/"`;
/// - `"model_weights/gru/gru/"` in an `.h5`, and `"gru/gru/"` in Keras 2's `save_weights("w.h5")`: the layer's own
///   name; within a model `inner`, `"model_weights/inner/gru/"`;
/// - `"gru/"` in a safetensors file from `save_file({w.path: w.numpy() for w in model.weights}, ..)`, or from
///   `torch.save(model.state_dict(), ..)` on PyTorch.
///
/// `Attention` has no parameters, except `scale` with `use_scale=True`: a factor on the scores. With `use_scale=False`
/// `AdditiveAttention` has none either; docs/recipes.md builds it.
pub mod keras {
    use super::*;

    /// `AdditiveAttention`, `scale . tanh(query + key)`: additive attention with the identity as projections.
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

/// Marian 1.12.42 with `--type s2s`, from its `model.npz`.
pub mod marian {
    use super::*;

    /// The attention of its recurrent decoder: additive attention. The prefix is `"decoder_"`.
    pub const RNN_ATTENTION: Package<AdditiveAttention> = package("Marian's attention", &[&[
        ("W_comb_att", Query, "Q A"), ("Wc_att", Key, "D A"), ("b_att", Bias, "1 A"), ("U_att", Energy, "A 1"),
        ("*", Ignored, "?"),
    ]], 1.0, Parts::additive);
}
