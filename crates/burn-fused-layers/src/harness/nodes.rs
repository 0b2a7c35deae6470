//! Tensors of a graph, taken off it.

use std::marker::PhantomData;

use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, AutodiffBackend, Backend};
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_autodiff::ops::NodeGuard;

use super::optional::OptionalTensor;
use super::tracked::TensorMap;

/// Takes tensors off the graph, and keeps their nodes.
pub(super) struct Nodes<B: Backend, C> {
    pub(super) guards: Vec<NodeGuard>,
    /// Whether a backward pass will want the gradient of each.
    pub(super) wanted: Vec<bool>,
    /// One of the tensors.
    pub(super) like: Option<FloatTensor<B>>,
    strategy: PhantomData<C>,
}

impl<B: Backend, C> Default for Nodes<B, C> {
    fn default() -> Self {
        Self {
            guards: Vec::new(),
            wanted: Vec::new(),
            like: None,
            strategy: PhantomData,
        }
    }
}

impl<B: Backend, C: CheckpointStrategy> TensorMap<Autodiff<B, C>, B> for Nodes<B, C> {
    fn tracked(&mut self, tensor: FloatTensor<Autodiff<B, C>>) -> FloatTensor<B> {
        self.wanted.push(tensor.is_tracked());
        let (tensor, node) = tensor.into_parts();
        self.guards.push(node);
        self.like.get_or_insert_with(|| tensor.clone());
        tensor
    }

    fn tracked_option(&mut self, tensor: OptionalTensor<Autodiff<B, C>>) -> OptionalTensor<B> {
        match tensor {
            OptionalTensor::Present { tensor } => OptionalTensor::Present {
                tensor: self.tracked(tensor),
            },
            OptionalTensor::Absent => {
                // An untracked leaf in its place: it has no gradient.
                let like = self
                    .like
                    .clone()
                    .expect("an optional tensor is not the first");
                let leaf = <Autodiff<B, C> as AutodiffBackend>::from_inner(like);
                self.guards.push(leaf.node());
                self.wanted.push(false);
                OptionalTensor::Absent
            }
        }
    }

    fn constant(&mut self, tensor: OptionalTensor<Autodiff<B, C>>) -> OptionalTensor<B> {
        let tensor = tensor.into_option();
        tensor.map(|tensor| tensor.into_primitive()).into()
    }
}
