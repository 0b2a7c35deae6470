//! The layer that a package applies to the context.

use attention_core::stateful::StatefulAttention;
use attention_core::{AttentionOutput, Mask, Memory};
use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{Tensor, assert_shape};
use burn_fused_layers::harness::parameter::of_linear;
use burn_fused_layers::linear;

/// The layer applied to a context: `W context + b`, or `W [context; query] + b`, optionally followed by tanh.
#[derive(Module, Debug)]
pub struct OutputLayer {
    /// W, `[value_size, output_size]` or `[value_size + query_size, output_size]`, and b.
    pub linear: Linear,
    /// Whether the layer reads the query, too.
    pub reads_query: bool,
    /// Whether tanh follows.
    pub tanh: bool,
}

impl OutputLayer {
    /// # Shapes
    /// - context `[batch, queries, value_size]`, query `[batch, queries, query_size]`
    /// - result `[batch, queries, output_size]`
    ///
    /// # Panics
    /// If the sizes are not those of the layer.
    pub fn forward(&self, context: Tensor<3>, query: Tensor<3>) -> Tensor<3> {
        let [batch, queries, _] = context.dims();
        let [size, _] = self.linear.weight.dims();
        let input = if self.reads_query {
            Tensor::cat(vec![context, query], 2)
        } else {
            context
        };
        assert_shape!(input, [batch, queries, size]);
        let (weight, bias) = of_linear(&self.linear);
        let output = linear(input, weight, bias);
        if self.tanh { output.tanh() } else { output }
    }
}

/// An attention and the layer applied to its context; the context of each step is the layer's output.
#[derive(Module, Debug)]
pub struct WithOutput<A: StatefulAttention> {
    /// The attention.
    pub attention: A,
    /// The layer applied to its context.
    pub output: OutputLayer,
}

impl<A: StatefulAttention> StatefulAttention for WithOutput<A> {
    type State = A::State;

    fn prepare(&self, keys: Tensor<3>, values: Tensor<3>, mask: Mask) -> Memory {
        self.attention.prepare(keys, values, mask)
    }

    fn initial_state(&self, memory: &Memory) -> A::State {
        self.attention.initial_state(memory)
    }

    fn step_with_weights(
        &self,
        query: Tensor<3>,
        memory: &Memory,
        state: A::State,
    ) -> (AttentionOutput<3>, A::State) {
        let inner = &self.attention;
        let (output, state) = inner.step_with_weights(query.clone(), memory, state);
        let context = self.output.forward(output.context, query);
        (AttentionOutput { context, ..output }, state)
    }

    fn penalty(&self, state: &A::State) -> Option<Tensor<1>> {
        self.attention.penalty(state)
    }
}
