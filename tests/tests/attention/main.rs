//! What the attention of `attention-core` promises, a subject a module. One program: to link forty took longer than to
//! run them.
#![allow(clippy::unwrap_used)]

mod additive;
mod additive_family;
mod additive_options;
mod cross_entropy;
mod custom_score;
mod decoding;
mod determinism;
mod dot_product;
mod dot_score_references;
mod dot_scores;
mod expanded;
mod fully_masked_queries;
mod gradients;
mod grouped_heads;
mod half_precision;
mod kernel_smoothing;
mod large;
mod layouts;
mod linear;
mod many_keys;
mod masked_softmax;
mod masks;
mod memory;
mod monotonic;
mod multi_head;
mod multi_head_references;
mod normalized_attention;
mod normalizers;
mod packed_weights;
mod padding;
mod parity;
mod position_errors;
mod positions;
mod precision;
mod precision_grid;
mod records;
mod recurrent;
mod recurrent_references;
mod references;
mod self_check;
mod shapes;
mod shared_gradients;
mod sizes;
mod stateful;
