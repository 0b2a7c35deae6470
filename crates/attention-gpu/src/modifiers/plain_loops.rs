//! Attention with modified scores, forward and backward, in plain loops.

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

    /// The index of an element; along an axis of 1 there is one for all.
    fn at(&self, index: &[usize]) -> usize {
        let axes = self.shape.iter().zip(index);
        axes.fold(0, |at, (&size, &n)| at * size + n.min(size - 1))
    }

    fn get(&self, index: &[usize]) -> f64 {
        self.elements[self.at(index)]
    }

    fn add(&mut self, index: &[usize], x: f64) {
        let at = self.at(index);
        self.elements[at] += x;
    }

    fn row(&self, index: &[usize]) -> &[f64] {
        let size = self.shape[self.shape.len() - 1];
        let at = self.at(&[index, &[0]].concat());
        &self.elements[at..at + size]
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(super) struct Case {
    /// Examples, heads, heads of keys, queries, keys.
    pub(super) sizes: [usize; 5],
    pub(super) is_additive: bool,
    pub(super) has_cap: bool,
    /// Axes but the last one.
    pub(super) bias: Option<[usize; 3]>,
    pub(super) relative_bias: Option<[usize; 2]>,
    pub(super) has_sinks: bool,
    /// Query `i` attends to the first `i + 1` keys alone.
    pub(super) is_causal: bool,
}

/// One dot product of unmodified scores.
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
        // Some biases mask their pair, and all those of the second query.
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
    pub(super) fn expected(&self, inputs: &Arrays) -> (Array, Arrays) {
        let [batch, heads, key_heads, num_queries, num_keys] = self.sizes;
        let [
            Some(queries),
            Some(keys),
            Some(values),
            weight,
            bias,
            relative,
            sinks,
        ] = inputs
        else {
            panic!("queries, keys and values expected");
        };
        let upstream = self.output_gradient();
        let mut context = Array::zeros(&upstream.shape);
        let mut gradients = inputs
            .clone()
            .map(|input| input.map(|input| Array::zeros(&input.shape)));
        let mut add = |which: usize, index: &[usize], x: f64| {
            if let Some(gradient) = &mut gradients[which] {
                gradient.add(index, x);
            }
        };
        for row in 0..batch * heads * num_queries {
            let (b, h, i) = (
                row / num_queries / heads,
                row / num_queries % heads,
                row % num_queries,
            );
            let k = h * key_heads / heads;
            let query = queries.row(&[b, h, i]);
            let distance = |j: usize| [b, h, 0, j + num_queries - 1 - i];
            let tanh = |j: usize, n: usize| (query[n] + keys.get(&[b, k, j, n])).tanh();
            let uncapped: Vec<f64> = (0..num_keys)
                .map(|j| match weight {
                    Some(weight) => (0..SIZE).map(|n| weight.elements[n] * tanh(j, n)).sum(),
                    None => SCALE * dot(query, keys.row(&[b, k, j])),
                })
                .collect();
            let score = |j: usize| {
                if self.is_causal && j > i {
                    return f64::NEG_INFINITY;
                }
                let capped = if self.has_cap {
                    CAP * (uncapped[j] / CAP).tanh()
                } else {
                    uncapped[j]
                };
                capped
                    + bias.as_ref().map_or(0.0, |bias| bias.get(&[b, h, i, j]))
                    + relative.as_ref().map_or(0.0, |bias| bias.get(&distance(j)))
            };
            let exponentials: Vec<f64> = (0..num_keys).map(|j| score(j).exp()).collect();
            let of_sink = sinks.as_ref().map_or(0.0, |sinks| sinks.elements[h].exp());
            let sum = exponentials.iter().sum::<f64>() + of_sink;
            if sum == 0.0 {
                continue;
            }
            let upstream = upstream.row(&[b, h, i]);
            let weights: Vec<f64> = exponentials.iter().map(|x| x / sum).collect();
            for (j, weight) in weights.iter().enumerate() {
                for n in 0..VALUE_SIZE {
                    context.add(&[b, h, i, n], weight * values.get(&[b, k, j, n]));
                }
            }
            let delta = dot(context.row(&[b, h, i]), upstream);
            add(6, &[h], -of_sink / sum * delta);
            for j in 0..num_keys {
                let of_weight = dot(values.row(&[b, k, j]), upstream);
                let mut of_score = weights[j] * (of_weight - delta);
                for (n, upstream) in upstream.iter().enumerate() {
                    add(2, &[b, k, j, n], weights[j] * upstream);
                }
                add(4, &[b, h, i, j], of_score);
                add(5, &distance(j), of_score);
                if self.has_cap {
                    of_score *= 1.0 - (uncapped[j] / CAP).tanh().powi(2);
                }
                for (n, &x) in query.iter().enumerate() {
                    let [of_query, of_key] = match weight {
                        Some(weight) => {
                            let tanh = tanh(j, n);
                            add(3, &[n], of_score * tanh);
                            [of_score * weight.elements[n] * (1.0 - tanh * tanh); 2]
                        }
                        None => [keys.get(&[b, k, j, n]), x].map(|x| of_score * SCALE * x),
                    };
                    add(0, &[b, h, i, n], of_query);
                    add(1, &[b, k, j, n], of_key);
                }
            }
        }
        (context, gradients)
    }
}
