//! How often a result errs by more than the plain composition of Burn's operations in the same precision: by more than
//! twice as much, a gradient by more than three times, and by more than 1e-6 of the largest element.
//!
//! Errors are random: the plain composition itself, with its keys and hidden units in reverse order, breaks the rule
//! now and then. What counts is how often.

use attention_tests::heads::On;
use attention_tests::{Array, MaskSpec, Outcome, Path, Problem, Sizes, device};
use burn::tensor::{DType, Device, Tensor, activation};
use burn_fused_layers::is_in_host_memory;

/// The keys of most grids.
const KEYS: usize = 21;

const SEEDS: u64 = 8;

#[derive(Clone, Copy, Debug)]
enum Score {
    Dot,
    /// With the standard deviation of `w_v`.
    Additive(f64),
}

/// A point of a grid.
#[derive(Clone, Copy, Debug)]
struct Point {
    queries: usize,
    keys: usize,
    hiddens: usize,
    /// The standard deviation of queries and keys, as the hidden units get them.
    spread: f64,
    score: Score,
    mean_of_values: f64,
    mask: MaskKind,
    seed: u64,
}

/// Masks under which every query attends to a key, so that the plain composition has no case of its own.
#[derive(Clone, Copy, Debug)]
enum MaskKind {
    None,
    Padding,
    Window,
    Dense,
}

impl MaskKind {
    const ALL: [Self; 4] = [Self::None, Self::Padding, Self::Window, Self::Dense];

    fn spec(self, queries: usize, keys: usize) -> MaskSpec {
        match self {
            Self::None => MaskSpec::None,
            Self::Padding => MaskSpec::lens(&[keys as i64 / 2]),
            // The last queries and the last keys share positions; queries before them attend to the first keys.
            Self::Window => MaskSpec::window(queries.max(4), 2 + queries.saturating_sub(keys)),
            Self::Dense => MaskSpec::Keep(Array::from_fn(&[1, 1, queries, keys], |at| {
                f64::from((at[2] * 5 + at[3] * 7) % 3 > 0)
            })),
        }
    }
}

impl Point {
    fn all(scores: &[Score], means: &[f64], spreads: &[f64]) -> Vec<Self> {
        let mut points = Vec::new();
        for queries in [1, 3, 12, 33] {
            for hiddens in [3, 24] {
                for &spread in spreads {
                    for &score in scores {
                        for &mean_of_values in means {
                            points.extend((0..SEEDS).map(|seed| Self {
                                queries,
                                keys: KEYS,
                                hiddens,
                                spread,
                                score,
                                mean_of_values,
                                mask: MaskKind::None,
                                seed: 100 * seed,
                            }));
                        }
                    }
                }
            }
        }
        points
    }

    /// A sample of all combinations of more sizes, spreads, weights and masks, spread evenly over them.
    fn sample(count: u64) -> Vec<Self> {
        let drawn = |seed: u64| {
            let mut rest = seed * 7919; // a prime that none of the numbers of choices shares
            let mut choose = |choices: u64| {
                let choice = (rest % choices) as usize;
                rest /= choices;
                choice
            };
            Self {
                queries: [1, 2, 5, 12, 33, 130][choose(6)],
                keys: KEYS,
                hiddens: [1, 3, 24, 64, 100][choose(5)],
                spread: [0.1, 0.3, 1.0, 3.0, 8.0, 30.0][choose(6)],
                score: Score::Additive([0.1, 0.3, 0.5, 1.0, 2.0, 4.0][choose(6)]),
                mean_of_values: [0.0, 3.0][choose(2)],
                mask: MaskKind::ALL[choose(4)],
                seed: 100 * seed,
            }
        };
        (0..count).map(drawn).collect()
    }

    /// Queries and keys of additive attention are the hidden units' own: the projections are the identity.
    fn problem(&self) -> Problem {
        let size = self.hiddens;
        let sizes = Sizes::new([1, 2, self.queries, self.keys], [size, size, size, 8]);
        // `draw` is uniform in -2..2.
        let draw = |seed, shape: &[usize], spread: f64| {
            Array::draw(self.seed + seed, shape).map(|x| rounded(x * spread * 0.75_f64.sqrt()))
        };
        let mut problem = Problem::dot_product(sizes, self.mask.spec(self.queries, self.keys));
        problem.set("queries", draw(1, &[1, 2, self.queries, size], self.spread));
        problem.set("keys", draw(2, &[1, 2, self.keys, size], self.spread));
        let values = draw(3, &[1, 2, self.keys, 8], 1.0);
        problem.set("values", values.map(|x| rounded(x + self.mean_of_values)));
        if let Score::Additive(weight) = self.score {
            problem.set("w_v", draw(4, &[size, 1], weight));
            let identity = Array::from_fn(&[size, size], |at| f64::from(at[0] == at[1]));
            problem.set("W_q", identity.clone());
            problem.set("W_k", identity);
        }
        problem.grad_context = Some(draw(5, &[1, 2, self.queries, 8], 1.0));
        problem
    }
}

/// The nearest `f32`.
fn rounded(x: f64) -> f64 {
    f64::from(x as f32)
}

/// The attention composed from Burn's operations, with keys and hidden units in reverse order or not.
pub(super) fn plain(problem: &Problem, (device, dtype): On, is_reversed: bool) -> Outcome {
    let input = |name: &str| problem.inputs[name].leaf::<4>(device, dtype);
    let [queries, keys, values] = ["queries", "keys", "values"].map(input);
    let weight = problem.inputs.get("w_v");
    let weight = weight.map(|weight| weight.leaf::<2>(device, dtype));
    let projected = |rows: &Tensor<4>, name: &str| match problem.inputs.get(name) {
        Some(weight) => {
            let [batch, heads, num_rows, size] = rows.dims();
            let flat = rows.clone().reshape([batch * heads * num_rows, size]);
            let projected = flat.matmul(weight.tensor::<2>(device, dtype));
            projected.reshape([batch, heads, num_rows, weight.shape[1]])
        }
        None => rows.clone(),
    };
    let flip = |tensor: Tensor<4>, axis: usize| match is_reversed {
        true => tensor.flip([axis]),
        false => tensor,
    };
    let q = flip(projected(&queries, "W_q"), 3);
    let k = flip(flip(projected(&keys, "W_k"), 2), 3);
    let [batch, heads, rows, size] = q.dims();
    let [_, _, columns, _] = k.dims();
    let scores = match &weight {
        Some(weight) => {
            let features = (q.unsqueeze_dim::<5>(3) + k.unsqueeze_dim::<5>(2)).tanh();
            let w = flip(weight.clone().reshape([1, 1, size, 1]), 2).reshape([size, 1]);
            let flat = features.reshape([batch * heads * rows * columns, size]);
            flat.matmul(w).reshape([batch, heads, rows, columns])
        }
        None => q.matmul(k.swap_dims(2, 3)) / (size as f64).sqrt(),
    };
    let attends = problem.mask.table([batch, heads, rows, columns]);
    let attends = flip(attends.tensor::<4>(device, dtype), 3).equal_elem(1.0);
    let scores = scores.mask_fill(attends.bool_not(), f32::NEG_INFINITY);
    let context = activation::softmax(scores, 3).matmul(flip(values.clone(), 2));
    let received = problem.grad_context.as_ref().unwrap();
    let received = received.tensor::<4>(device, dtype);
    let mut outcome = Outcome::from([("context".into(), Array::read(context.clone()))]);
    let gradients = (context * received).sum().backward();
    for (name, input) in [("queries", queries), ("keys", keys), ("values", values)] {
        let gradient = input.grad(&gradients).unwrap();
        outcome.insert(format!("grad {name}"), Array::read(gradient));
    }
    if let Some(weight) = weight {
        let gradient = weight.grad(&gradients).unwrap();
        outcome.insert("grad w_v".into(), Array::read(gradient));
    }
    outcome
}

/// The largest difference, of finite elements.
pub(super) fn error(actual: &Array, expected: &Array) -> f64 {
    assert_eq!(actual.shape, expected.shape);
    let pairs = actual.data.iter().zip(&expected.data);
    pairs.fold(0.0, |largest, (a, e)| {
        let difference = (a - e).abs();
        assert!(difference.is_finite(), "{a} {e}");
        f64::max(largest, difference)
    })
}

/// How many results break the rule, and by how much the worst of them.
#[derive(Clone, Copy, Debug, Default)]
struct Breaches {
    of: usize,
    count: usize,
    worst: f64,
}

impl Breaches {
    fn add(&mut self, outcome: &Outcome, plain: &Outcome, oracle: &Outcome) {
        for (result, plain) in plain {
            let expected = &oracle[result];
            let factor = if result == "context" { 2.0 } else { 3.0 };
            let bound = (factor * error(plain, expected)).max(1e-6 * expected.magnitude());
            let error = error(&outcome[result], expected);
            // Beside its terms, whose sum may be nearly 0, nothing is large.
            assert!(error < 1e-3, "{result}: an error of {error:e}");
            let excess = error / bound;
            self.of += 1;
            self.count += usize::from(excess > 1.0);
            self.worst = self.worst.max(excess);
        }
    }
}

/// Our breaches, and the plain composition's in reverse order; `--nocapture` shows them.
fn breaches(what: &str, device: &Device, points: &[Point]) -> [Breaches; 2] {
    let exact = device::plain()[0].clone().autodiff();
    let mut found = [Breaches::default(); 2];
    for point in points {
        let problem = point.problem();
        let oracle = problem.run(&exact, DType::F64, Path::Forward);
        let plain_outcome = plain(&problem, (device, DType::F32), false);
        let ours = problem.run(device, DType::F32, Path::Forward);
        found[0].add(&ours, &plain_outcome, &oracle);
        let reversed = plain(&problem, (device, DType::F32), true);
        found[1].add(&reversed, &plain_outcome, &oracle);
    }
    let [ours, reversed] = found;
    println!("{what}: {ours:?}; the plain composition in reverse order: {reversed:?}");
    found
}

/// The breaches of ours, and breaches of the plain composition in reverse order.
#[track_caller]
fn assert_few(holds: bool, [ours, reversed]: [Breaches; 2]) {
    let plain = "the plain composition in reverse order";
    assert!(holds, "{ours:?}; {plain}: {reversed:?}");
}

/// The counts are of random errors: on twice as many points they came to 1.0 (AVX-512), 1.5 (AVX2) and 1.3 (portable)
/// times the counts of the plain composition in reverse order.
///
/// The mean of the values cancels in the gradients of a query's scores, but for the rounding of the query's context,
/// from which a GPU's kernels have it; a CPU's kernels, where queries are few, have it from all weights. On software
/// Vulkan the worst was 6.3.
#[test]
fn values_with_a_mean_cost_little_precision() {
    let additive = [0.1, 0.5].map(Score::Additive);
    let means = [0.0, 3.0];
    let grids = [
        Point::all(&additive, &means, &[0.1, 1.0, 8.0]),
        Point::all(&[Score::Dot], &means, &[0.1, 1.0, 2.0]),
    ];
    device::each_training(|device| {
        let worst = if is_in_host_memory(device) { 4.0 } else { 8.0 };
        for points in &grids {
            let found @ [ours, reversed] = breaches("moderate", device, points);
            let most = (2 * reversed.count).max(ours.of / 80);
            assert_few(ours.count <= most && ours.worst < worst, found);
        }
    });
}

/// A GPU goes through many keys in several tiles, and of few queries in several parts that are put together. On twice
/// as many points 148 of 2560 results broke the rule beside the composition on ndarray, 76 beside that on flex, the
/// worst 4.2 times, and 77 on software Vulkan, the worst 8.7 times.
#[test]
fn many_keys_cost_little_precision() {
    let additive = [0.1, 0.5].map(Score::Additive);
    let points = [(200, 12), (1100, 1)].map(|(keys, queries)| {
        let grid = Point::all(&additive, &[0.0, 3.0], &[0.1, 1.0]);
        let points = grid.into_iter();
        let of_queries = points.filter(move |point| point.queries == queries);
        of_queries.map(move |point| Point { keys, ..point })
    });
    let points: Vec<Point> = points.into_iter().flatten().collect();
    device::each_training(|device| {
        let found @ [ours, _] = breaches("many keys", device, &points);
        assert_few(8 * ours.count <= ours.of && ours.worst < 16.0, found);
    });
}

/// Where weights are large, scores are, and their rounding counts most.
#[test]
fn large_weights_cost_little_precision() {
    let weights = [1.0, 2.0, 4.0].map(Score::Additive);
    let points = Point::all(&weights, &[0.0], &[0.1, 1.0, 8.0]);
    device::each_training(|device| {
        let found @ [ours, reversed] = breaches("large weights", device, &points);
        let most = 8 * reversed.count + ours.of / 40;
        assert_few(3 * ours.count <= most && ours.worst < 4.0, found);
    });
}

/// Where scores are large, here some hundred, a query attends to one key alone, and the gradients of its score are what
/// is left of a difference. Where that is so for all queries, hardly anything is left, and the rounding of the
/// difference is beyond the rule by any factor. Of 512 results 23 were on a CPU with AVX-512, 38 on software Vulkan.
#[test]
fn large_scores_cost_precision_within_bounds() {
    let points = Point::all(&[Score::Dot], &[0.0, 3.0], &[8.0]);
    device::each_training(|device| {
        let [ours, _] = breaches("large scores", device, &points);
        let few = if is_in_host_memory(device) { 15 } else { 12 };
        assert!(few * ours.count <= ours.of, "{ours:?}");
    });
}

/// Few hidden units are as good as many only if the gradient of each is: where `tanh` is saturated, the plain
/// composition takes the derivative's last bits from a square of 1, the kernels from `r - r^2`.
#[test]
#[ignore = "a minute and more: .ci/full runs it"]
fn sizes_spreads_weights_and_masks() {
    let points = Point::sample(1000).into_iter();
    let (many, few): (Vec<_>, Vec<_>) = points.partition(|point| point.hiddens >= 24);
    device::each_training(|device| {
        let many = ("24 units or more", &many, 1.5);
        for (what, points, factor) in [many, ("1 or 3 units", &few, 3.0)] {
            let found @ [ours, reversed] = breaches(what, device, points);
            let most = factor * (reversed.count as f64).max(ours.of as f64 / 100.0);
            assert_few(ours.count as f64 <= most, found);
        }
    });
}
