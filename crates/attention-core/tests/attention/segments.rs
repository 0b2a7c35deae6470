//! Examples packed into one row: each is attended to as if it were alone.

use std::ops::Range;

use attention_core::score::DotProductScoreConfig;
use attention_core::{Attention, Mask, MultiHeadAttentionConfig};
use attention_tests::heads::{HEADS, HIDDENS, Inputs};
use attention_tests::{
    Array, MaskSpec, Outcome, Path, Problem, SIZES, Sizes, assert_close, assert_same, assert_zero,
    device, heads, parameters, refuses,
};
use burn::tensor::{DType, Device, Tensor};
use burn_fused_layers::is_in_host_memory;

/// Where the `n`-th segment of these lengths lies.
fn segment(lens: &[usize], n: usize) -> Range<usize> {
    let start = lens[..n].iter().sum();
    start..start + lens[n]
}

/// The rows `range` of example `b`.
fn part(array: &Array, b: usize, range: Range<usize>) -> Array {
    let rank = array.shape.len();
    let mut shape = array.shape.clone();
    (shape[0], shape[rank - 2]) = (1, range.len());
    Array::from_fn(&shape, |at| {
        let mut at = at.to_vec();
        at[0] = b;
        at[rank - 2] += range.start;
        array.at(&at)
    })
}

/// A mask of segments, and what lies where.
struct Packed {
    queries: Vec<Vec<usize>>,
    keys: Vec<Vec<usize>>,
    /// The other settings of each segment.
    mask: MaskSpec,
}

impl Packed {
    fn mask(&self) -> MaskSpec {
        let segments = MaskSpec::Segments {
            queries: self.queries.clone(),
            keys: self.keys.clone(),
        };
        segments.and(self.mask.clone())
    }

    /// The rows of queries and of keys of each segment, with the example.
    fn parts(&self) -> Vec<(usize, Range<usize>, Range<usize>)> {
        let rows = self.queries.iter().zip(&self.keys).enumerate();
        let of_row = |(b, (queries, keys)): (usize, (&Vec<usize>, &Vec<usize>))| {
            let part = |n| (b, segment(queries, n), segment(keys, n));
            (0..keys.len()).map(part).collect::<Vec<_>>()
        };
        rows.flat_map(of_row).collect()
    }
}

fn each(check: impl Fn(&Packed, Sizes)) {
    let cross = Packed {
        queries: vec![vec![2, 0, 3], vec![4, 3, 1]],
        keys: vec![vec![5, 1, 4], vec![1, 0, 7]],
        mask: MaskSpec::None,
    };
    let sizes = SIZES.with_queries(8).with_keys(11);
    check(&cross, sizes);
    let lens = || vec![vec![4, 5], vec![3, 8]];
    for mask in [MaskSpec::None, MaskSpec::Causal] {
        let packed = Packed {
            queries: lens(),
            keys: lens(),
            mask,
        };
        check(&packed, sizes.with_queries(11));
    }
}

/// The results of one segment, out of all results.
fn part_of_outcome(outcome: &Outcome, part_at: &(usize, Range<usize>, Range<usize>)) -> Outcome {
    let (b, queries, keys) = part_at;
    let of =
        |name: &str, rows: &Range<usize>| (name.into(), part(&outcome[name], *b, rows.clone()));
    Outcome::from([
        of("context", queries),
        of("grad queries", queries),
        of("grad keys", keys),
        of("grad values", keys),
    ])
}

/// NaN in all rows of example `b` but `range`, and in all other examples.
fn poisoned(problem: &Problem, name: &str, b: usize, range: &Range<usize>) -> Problem {
    let [batch, heads, rows] = [0, 1, 2].map(|axis| problem.inputs[name].shape[axis]);
    let is_other = |at: &[usize]| f64::from(at[0] != b || !range.contains(&at[2]));
    let others = Array::from_fn(&[batch, heads, rows], is_other);
    problem.with_rows(name, &others, f64::NAN)
}

#[test]
fn each_segment_is_attended_to_alone() {
    device::each_training(|device| {
        each(|packed, sizes| {
            for (kind, problem) in Problem::both(sizes, &packed.mask()) {
                for path in Path::DIRECT {
                    let together = problem.run(device, DType::F32, path);
                    for at @ (b, queries, keys) in &packed.parts() {
                        let what = format!("{kind}: {path:?}: {at:?}");
                        let together = part_of_outcome(&together, at);
                        // Neither padding nor other segments change a bit.
                        let rest = poisoned(&problem, "keys", *b, keys);
                        let rest = poisoned(&rest, "values", *b, keys);
                        let run = |problem: Problem| problem.run(device, DType::F32, path);
                        let part_of = |problem| part_of_outcome(&run(problem), at);
                        let queries_too = part_of(poisoned(&rest, "queries", *b, queries));
                        let rest = part_of(rest);
                        for (name, result) in &together {
                            let what = format!("{what}: {name}");
                            assert_same(&what, &rest[name], result);
                            // On a GPU, queries of others in a tile choose how it computes `tanh`.
                            if kind == "additive" && !is_in_host_memory(device) {
                                assert_close(&what, &queries_too[name], result, 2e-6);
                            } else {
                                assert_same(&what, &queries_too[name], result);
                            }
                        }
                        if queries.is_empty() || keys.is_empty() {
                            continue;
                        }
                        let mut alone = problem.clone();
                        alone.mask = packed.mask.clone();
                        let rows = [("queries", queries), ("keys", keys), ("values", keys)];
                        for (name, rows) in rows {
                            alone.set(name, part(&problem.inputs[name], *b, rows.clone()));
                        }
                        let gradient = problem.grad_context.as_ref().unwrap();
                        alone.grad_context = Some(part(gradient, *b, queries.clone()));
                        let alone = run(alone);
                        // To rounding: sums over keys are cut where these lie in their row.
                        for (name, result) in &together {
                            let what = format!("{what}: alone: {name}");
                            assert_close(&what, result, &alone[name], 2e-6);
                        }
                    }
                }
            }
        });
    });
}

#[test]
fn heads_attend_to_each_segment_alone() {
    device::each_training(device::in_each_type(|on| {
        let config = MultiHeadAttentionConfig::new(HIDDENS, HEADS);
        let module = parameters::cast(config.init(on.0), on.1);
        let packed = Packed {
            queries: vec![vec![2, 3], vec![1, 3]],
            keys: vec![vec![3, 4], vec![4, 2]],
            mask: MaskSpec::None,
        };
        let inputs = heads::inputs([HIDDENS; 3], HIDDENS);
        let run =
            |inputs: &Inputs, mask: &MaskSpec| heads::run(&module, inputs, mask, Path::Forward, on);
        let together = run(&inputs, &packed.mask());
        for at @ (b, queries, keys) in &packed.parts() {
            let together = part_of_outcome(&together, at);
            let rows = |(name, array): (&String, &Array)| {
                let is_of_keys = matches!(name.as_str(), "keys" | "values");
                let rows = if is_of_keys { keys } else { queries };
                (name.clone(), part(array, *b, rows.clone()))
            };
            let alone: Inputs = inputs.iter().map(rows).collect();
            let alone = run(&alone, &packed.mask);
            for (name, result) in &together {
                let what = format!("{at:?}: {name}");
                assert_close(&what, result, &alone[name], heads::roundings(16.0, on));
            }
        }
    }));
}

#[test]
fn causal_segments_end_at_their_last_key() {
    device::each(|device| {
        let attention = Attention::new(DotProductScoreConfig::new().init(), 0.0);
        let rows = |seed, len| Array::draw(seed, &[2, len, 3]).f32::<3>(device);
        let run = |mask: Mask| {
            let (queries, keys, values) = (rows(1, 6), rows(2, 7), rows(3, 7));
            attention.forward(queries, keys, values, mask).into_data()
        };
        // The first segment of row 1 has more queries than keys; a query after the last segment is padding.
        let mask = Mask::segments_causal(&[[2, 3], [3, 2]], &[[3, 4], [2, 4]]);
        let row_0 = [[0, 2], [0, 3], [3, 5], [3, 6], [3, 7], [0, 0]];
        let row_1 = [[0, 0], [0, 1], [0, 2], [2, 5], [2, 6], [0, 0]];
        assert_eq!(run(mask.clone()), run(Mask::intervals(&[row_0, row_1])));
        let mut narrower = mask;
        narrower &= Mask::intervals(&[[[1, 7]; 6]]);
        let cut = |of: [[usize; 2]; 6]| of.map(|[start, end]| [start.max(1), end]);
        let found = run(narrower);
        assert_eq!(found, run(Mask::intervals(&[cut(row_0), cut(row_1)])));
    });
}

/// Each segment by itself, its queries the last of its text.
#[test]
fn a_window_lies_within_its_segment() {
    device::each(|device| {
        let attention = Attention::new(DotProductScoreConfig::new().init(), 0.0);
        let rows = |seed, len| Array::draw(seed, &[1, len, 3]).f32::<3>(device);
        let (queries, keys, values) = (rows(1, 7), rows(2, 9), rows(3, 9));
        let run = |mask: Mask| {
            let [q, k, v] = [&queries, &keys, &values].map(Tensor::clone);
            Array::read(attention.forward(q, k, v, mask))
        };
        let (of_queries, of_keys) = ([2, 3, 1], [4, 2, 3]);
        for window @ [before, after] in [[0, 0], [1, 0], [2, 1], [0, 9]] {
            let got = run(Mask::segments_window(&[of_queries], &[of_keys], window));
            let (mut query, mut key) = (0, 0);
            for (num_queries, num_keys) in of_queries.into_iter().zip(of_keys) {
                let own = [&keys, &values].map(|rows| rows.clone().narrow(1, key, num_keys));
                let [own_keys, own_values] = own;
                let own = queries.clone().narrow(1, query, num_queries);
                let mask = Mask::window(before, after);
                let alone = attention.forward(own, own_keys, own_values, mask);
                let element = |at: &[usize]| got.at(&[0, query + at[1], at[2]]);
                let together = Array::from_fn(&[1, num_queries, 3], element);
                assert_close(format!("{window:?}, {query}"), &together, alone, 1e-6);
                query += num_queries;
                key += num_keys;
            }
            let padding = Array::from_fn(&[3], |at| got.at(&[0, 6, at[0]]));
            assert_zero("padding", &padding);
        }
        let causal = run(Mask::segments_causal(&[of_queries], &[of_keys]));
        let window = Mask::segments_window(&[of_queries], &[of_keys], [usize::MAX, 0]);
        assert_eq!(run(window), causal);
    });
}

#[test]
fn bad_lengths_say_what_was_expected() {
    device::each(|device| {
        let attention = Attention::new(DotProductScoreConfig::new().init(), 0.0);
        let rows = |len| Array::draw(1, &[2, len, 3]).f32::<3>(device);
        let run = |mask: Mask| attention.forward(rows(5), rows(7), rows(7), &mask);
        // 6 queries and 6 keys, where there are 5 and 7.
        let queries = "row 1 expected segments of at most 5 queries together, got [2, 4]";
        refuses(queries, || run(Mask::segments(&[[2, 3], [2, 4]])));
        let keys = "row 0 expected segments of at most 7 keys together, got [4, 4]";
        refuses(keys, || run(Mask::segments_across(&[[2, 3]], &[[4, 4]])));
        let queries = "row 0 expected segments of at most 5 queries";
        refuses(queries, || run(Mask::segments(&[[usize::MAX, 2], [1, 1]])));
        let batch = "axis `batch` expected 2 or 1, got 3";
        refuses(batch, || run(Mask::segments(&[[1, 2], [1, 2], [1, 2]])));
        let rows = "expected as many rows of keys as of queries, 1, got 2";
        refuses(rows, || Mask::segments_across(&[[2, 3]], &[[4, 4], [1, 1]]));
        let segments = "row 0 expected as many segments of keys as of queries, 2, got 1";
        let across = || Mask::segments_across(&[vec![2, 3]], &[vec![7]]);
        refuses(segments, across);
    });
}

#[test]
fn an_index_that_is_no_example_is_named() {
    let device = Device::flex();
    let segments = Mask::segments(&[[2, 3], [4, 1]]);
    for mask in [segments, Mask::intervals(&[[[0, 1]], [[1, 3]]])] {
        for index in [2, -1] {
            let expected = format!("Mask::select: indices in 0 .. 2 expected, got {index}");
            let indices = Tensor::from_ints([0, index], &device);
            refuses(&expected, || mask.select(indices));
        }
    }
}
