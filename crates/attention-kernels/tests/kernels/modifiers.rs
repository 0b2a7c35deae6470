//! Score modifiers with their data, for the tests of every attention.

use attention_kernels::{AttentionReal, ModifierGradients, Rows, ScoreModifiers};

use crate::owned_mask::pair;

/// Which modifiers there are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Modifiers {
    pub(crate) soft_cap: Option<f64>,
    /// Whether each of batch, heads and queries has a bias of its own.
    pub(crate) bias: Option<[bool; 3]>,
    /// Whether each of batch and heads has a bias of its own.
    pub(crate) relative_bias: Option<[bool; 2]>,
    pub(crate) sinks: bool,
}

impl Modifiers {
    pub(crate) const NONE: Self = Self {
        soft_cap: None,
        bias: None,
        relative_bias: None,
        sinks: false,
    };

    /// Low enough for scores of standard deviation 1 to be bent.
    pub(crate) const SOFT_CAP: Self = Self {
        soft_cap: Some(1.5),
        ..Self::NONE
    };

    /// A bias of each example and key.
    pub(crate) const KEY_BIAS: Self = Self::bias([true, false, false]);

    pub(crate) const PAIR_BIAS: Self = Self::bias([true; 3]);

    pub(crate) const RELATIVE_BIAS: Self = Self::relative_bias([false, true]);

    pub(crate) const SINKS: Self = Self {
        sinks: true,
        ..Self::NONE
    };

    pub(crate) const ALL: Self = Self {
        soft_cap: Some(1.5),
        bias: Some([false, true, true]),
        relative_bias: Some([true, false]),
        sinks: true,
    };

    pub(crate) const fn bias(own: [bool; 3]) -> Self {
        Self {
            bias: Some(own),
            ..Self::NONE
        }
    }

    pub(crate) const fn relative_bias(own: [bool; 2]) -> Self {
        Self {
            relative_bias: Some(own),
            ..Self::NONE
        }
    }

    /// Each alone, with biases of every shape, and all together.
    pub(crate) fn each() -> Vec<Self> {
        let mut each = vec![Self::SOFT_CAP, Self::SINKS, Self::ALL];
        for shape in 0..8 {
            let own = |axis: usize| shape >> axis & 1 == 1;
            each.push(Self::bias([own(0), own(1), own(2)]));
            if shape < 4 {
                each.push(Self::relative_bias([own(0), own(1)]));
            }
        }
        each
    }

    /// Elements from `draw`, for scores `[batch, heads, queries, keys]`.
    pub(crate) fn with_elements<E: AttentionReal>(
        &self,
        [batch, heads, queries, keys]: [usize; 4],
        mut draw: impl FnMut(usize) -> Vec<E>,
    ) -> OwnedModifiers<E> {
        let or_one = |is_own, size| if is_own { size } else { 1 };
        let mut bias = |shape: [usize; 4]| Bias {
            elements: draw(shape.iter().product()),
            shape,
        };
        OwnedModifiers {
            soft_cap: self.soft_cap.map(E::from_f64),
            bias: self.bias.map(|[of_batch, of_heads, of_queries]| {
                let [batch, heads] = [or_one(of_batch, batch), or_one(of_heads, heads)];
                bias([batch, heads, or_one(of_queries, queries), keys])
            }),
            relative_bias: self.relative_bias.map(|[of_batch, of_heads]| {
                let [batch, heads] = [or_one(of_batch, batch), or_one(of_heads, heads)];
                bias([batch, heads, 1, (queries + keys).saturating_sub(1)])
            }),
            sinks: self.sinks.then(|| draw(heads)),
        }
    }
}

/// Elements that broadcast over axes of size 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bias<E> {
    pub(crate) elements: Vec<E>,
    pub(crate) shape: [usize; 4],
}

impl<E> Bias<E> {
    /// Where the element of `at` is.
    pub(crate) fn position(&self, at: [usize; 4]) -> usize {
        let axes = self.shape.iter().zip(at);
        axes.fold(0, |position, (size, at)| {
            position * size + if *size == 1 { 0 } else { at }
        })
    }

    fn rows(&self) -> Rows<'_, E> {
        Rows::contiguous(&self.elements, self.shape)
    }
}

/// Modifiers, or the gradients of such.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnedModifiers<E> {
    pub(crate) soft_cap: Option<E>,
    pub(crate) bias: Option<Bias<E>>,
    pub(crate) relative_bias: Option<Bias<E>>,
    pub(crate) sinks: Option<Vec<E>>,
}

impl<E: AttentionReal> OwnedModifiers<E> {
    pub(crate) fn view(&self) -> ScoreModifiers<'_, E> {
        ScoreModifiers {
            soft_cap: self.soft_cap,
            bias: self.bias.as_ref().map(Bias::rows),
            relative_bias: self.relative_bias.as_ref().map(Bias::rows),
            sinks: self.sinks.as_deref(),
            score_mod: None,
        }
    }

    /// In another type.
    pub(crate) fn map<F>(&self, f: impl Fn(E) -> F) -> OwnedModifiers<F> {
        let map = |elements: &[E]| elements.iter().map(|x| f(*x)).collect();
        let bias = |bias: &Bias<E>| Bias {
            elements: map(&bias.elements),
            shape: bias.shape,
        };
        OwnedModifiers {
            soft_cap: self.soft_cap.map(&f),
            bias: self.bias.as_ref().map(bias),
            relative_bias: self.relative_bias.as_ref().map(bias),
            sinks: self.sinks.as_deref().map(map),
        }
    }

    /// Zeros for the gradients.
    pub(crate) fn zeros(&self) -> Self {
        self.map(|_| E::ZERO)
    }

    /// All of these gradients as wanted.
    pub(crate) fn wanted(&mut self) -> ModifierGradients<'_, E> {
        ModifierGradients {
            bias: self.bias.as_mut().map(|of| &mut of.elements[..]),
            relative_bias: self.relative_bias.as_mut().map(|of| &mut of.elements[..]),
            sinks: self.sinks.as_deref_mut(),
        }
    }

    /// The elements of bias, relative bias and sinks, each empty if there are none.
    pub(crate) fn parts(&self) -> [&[E]; 3] {
        [
            self.bias.as_ref().map_or(&[], |of| &of.elements[..]),
            self.relative_bias
                .as_ref()
                .map_or(&[], |of| &of.elements[..]),
            self.sinks.as_deref().unwrap_or_default(),
        ]
    }

    /// The element of the relative bias of a pair.
    fn distance(queries: usize, [batch, head, query, key]: [usize; 4]) -> [usize; 4] {
        [batch, head, 0, key + queries - 1 - query]
    }

    /// Whether a bias of minus infinity masks a pair.
    pub(crate) fn masks(&self, queries: usize, at: [usize; 4]) -> bool {
        let distance = Self::distance(queries, at);
        let biases = [(&self.bias, at), (&self.relative_bias, distance)];
        let is_masked = |(bias, at): (&Option<Bias<E>>, _)| {
            let bias = bias.as_ref();
            bias.is_some_and(|bias| bias.elements[bias.position(at)] == -E::INFINITY)
        };
        biases.into_iter().any(is_masked)
    }

    /// Poison in the biases that no pair has that attends; there are pairs `[batch, heads, queries, keys]`.
    pub(crate) fn poison(&mut self, shape: [usize; 4], attends: impl Fn([usize; 4]) -> bool) {
        let is_read = |bias: &Bias<E>| vec![false; bias.elements.len()];
        let mut read = [&self.bias, &self.relative_bias].map(|bias| bias.as_ref().map(is_read));
        let pairs = (0..shape.iter().product()).map(|at| pair(shape, at));
        for at in pairs.filter(|at| attends(*at)) {
            let distance = Self::distance(shape[2], at);
            let biases = [(&self.bias, at), (&self.relative_bias, distance)];
            for (read, (bias, at)) in read.iter_mut().zip(biases) {
                if let (Some(read), Some(bias)) = (read, bias) {
                    read[bias.position(at)] = true;
                }
            }
        }
        let poisons = [E::from_f64(f64::NAN), E::INFINITY, -E::INFINITY];
        for (read, bias) in read.iter().zip([&mut self.bias, &mut self.relative_bias]) {
            let (Some(read), Some(bias)) = (read, bias) else {
                continue;
            };
            for (at, element) in bias.elements.iter_mut().enumerate() {
                if !read[at] {
                    *element = poisons[at % poisons.len()];
                }
            }
        }
    }
}
