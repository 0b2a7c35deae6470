//! Cases of attention with modified scores, and their results by plain loops.

use attention_oracle::{Attention, Axes, Bias, Modifiers, Pairs, Score};

pub(super) const CAP: f64 = 1.5;
pub(super) const SCALE: f64 = 0.7;
const SIZE: usize = 5;
const VALUE_SIZE: usize = 3;

/// Elements that are exact in f32.
#[derive(Clone)]
pub(super) struct Array {
    pub(super) shape: Vec<usize>,
    pub(super) elements: Vec<f64>,
}

impl Array {
    /// Elements within `-magnitude..magnitude`.
    fn new(shape: &[usize], magnitude: f64, phase: f64) -> Self {
        let count: usize = shape.iter().product();
        let element = |n| magnitude * (n as f64 * 1.7 + (n * n) as f64 * 0.13 + phase).sin();
        Self {
            shape: shape.to_vec(),
            elements: (0..count).map(|n| f64::from(element(n) as f32)).collect(),
        }
    }

    pub(super) fn zeros(shape: &[usize]) -> Self {
        Self::new(shape, 0.0, 0.0)
    }
}

pub(super) struct Case {
    /// The numbers of examples, heads, key heads, queries and keys.
    pub(super) sizes: [usize; 5],
    pub(super) is_additive: bool,
    pub(super) has_cap: bool,
    /// All axes except the last one.
    pub(super) bias: Option<[usize; 3]>,
    pub(super) relative_bias: Option<[usize; 2]>,
    pub(super) has_sinks: bool,
    /// Query `i` attends only to the first `i + 1` keys.
    pub(super) is_causal: bool,
}

/// One dot product with unmodified scores.
pub(super) const PLAIN: Case = Case {
    sizes: [1; 5],
    is_additive: false,
    has_cap: false,
    bias: None,
    relative_bias: None,
    has_sinks: false,
    is_causal: false,
};

/// Queries, keys, values, weight, bias, relative bias, sinks.
pub(super) type Arrays = [Option<Array>; 7];

impl Case {
    pub(super) fn inputs(&self) -> Arrays {
        let [batch, heads, key_heads, queries, keys] = self.sizes;
        let distances = queries + keys - 1;
        // Some biases mask their pair, and every pair of the second query.
        let mask = |mut bias: Array| {
            let queries = bias.shape[2];
            for (n, x) in bias.elements.iter_mut().enumerate() {
                let query = n / keys % queries;
                if n % 7 == 2 || queries > 1 && query == 1 {
                    *x = f64::NEG_INFINITY;
                }
            }
            bias
        };
        let bias = self
            .bias
            .map(|[a, b, c]| Array::new(&[a, b, c, keys], 1.0, 0.5));
        let relative = self
            .relative_bias
            .map(|[a, b]| Array::new(&[a, b, 1, distances], 1.2, 0.6));
        [
            Some(Array::new(&[batch, heads, queries, SIZE], 1.3, 0.1)),
            Some(Array::new(&[batch, key_heads, keys, SIZE], 1.1, 0.2)),
            Some(Array::new(&[batch, key_heads, keys, VALUE_SIZE], 1.0, 0.3)),
            self.is_additive.then(|| Array::new(&[SIZE], 0.9, 0.4)),
            bias.map(mask),
            relative.map(|mut bias| {
                bias.elements[distances / 3] = f64::NEG_INFINITY;
                bias
            }),
            self.has_sinks.then(|| {
                let mut sinks = Array::new(&[heads], 1.0, 0.7);
                if heads > 2 {
                    sinks.elements[1] = f64::NEG_INFINITY;
                    sinks.elements[2] = 9.0;
                }
                sinks
            }),
        ]
    }

    pub(super) fn output_gradient(&self) -> Array {
        let [batch, heads, _, queries, _] = self.sizes;
        Array::new(&[batch, heads, queries, VALUE_SIZE], 1.0, 0.8)
    }

    /// The context and the gradients.
    pub(super) fn expected<'a>(&self, inputs: &'a Arrays) -> (Array, Arrays) {
        let [batch, heads, key_heads, queries, keys] = self.sizes;
        let axes = Axes {
            batch,
            heads,
            key_heads,
            queries,
            keys,
        };
        let pairs = Pairs::new(axes, |[_, _, i, j]| !self.is_causal || j <= i);
        let [
            of_queries,
            of_keys,
            values,
            weight,
            bias,
            relative_bias,
            sinks,
        ] = inputs.each_ref().map(Option::as_ref);
        let elements = |array: Option<&'a Array>| &array.expect("there").elements[..];
        let modifier = |array: Option<&'a Array>| {
            array.map(|array| Bias {
                elements: &array.elements[..],
                shape: std::array::from_fn(|axis| array.shape[axis]),
            })
        };
        let attention = Attention {
            pairs: &pairs,
            score: match weight {
                Some(weight) => Score::Additive {
                    weight: &weight.elements,
                },
                None => Score::Dot { scale: SCALE },
            },
            queries: elements(of_queries),
            keys: elements(of_keys),
            values: elements(values),
            value_size: VALUE_SIZE,
            modifiers: Modifiers {
                soft_cap: self.has_cap.then_some(CAP),
                bias: modifier(bias),
                relative_bias: modifier(relative_bias),
                sinks: sinks.map(|sinks| &sinks.elements[..]),
            },
            factors: None,
        };
        let (outputs, upstream) = (attention.forward(), self.output_gradient());
        let found = attention.backward(&outputs, &upstream.elements);
        let found = [
            found.queries,
            found.keys,
            found.values,
            found.weight,
            found.bias,
            found.relative_bias,
            found.sinks,
        ];
        let with_shape = |(input, elements): (&Option<Array>, Vec<f64>)| {
            let shape = input.as_ref()?.shape.clone();
            Some(Array { shape, elements })
        };
        let gradients: Vec<_> = inputs.iter().zip(found).map(with_shape).collect();
        let context = Array {
            shape: upstream.shape,
            elements: outputs.context,
        };
        (
            context,
            gradients
                .try_into()
                .unwrap_or_else(|_| unreachable!("one for each input")),
        )
    }
}
