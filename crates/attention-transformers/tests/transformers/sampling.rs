//! The distribution of the next token, by plain loops.

use attention_tests::{Array, refuses};
use attention_transformers::Sampling;
use attention_transformers::generate::RandomSamplingConfig;

fn random() -> RandomSamplingConfig {
    RandomSamplingConfig::new()
}

fn logits(seed: u64) -> Vec<f64> {
    Array::draw(seed, &[23]).data
}

/// The distribution by a loop that takes one token after the other.
fn by_loop(logits: &[f64], config: &RandomSamplingConfig) -> Vec<(usize, f64)> {
    let mut left: Vec<usize> = (0..logits.len()).collect();
    let mut taken: Vec<usize> = Vec::new();
    let weight = |token: usize| (logits[token] / config.temperature).exp();
    let most = config.top_k.unwrap_or(usize::MAX).min(logits.len());
    while taken.len() < logits.len() {
        let logit = |at: usize| logits[left[at]];
        let better = |best, at| if logit(at) > logit(best) { at } else { best };
        let best = left.remove((1..left.len()).fold(0, better));
        // As likely as the last of `top_k`.
        let last = taken.last();
        let is_equal = last.is_some_and(|last| logits[*last] == logits[best]);
        if taken.len() >= most && !is_equal {
            break;
        }
        taken.push(best);
    }
    let all: f64 = taken.iter().map(|token| weight(*token)).sum();
    let mut nucleus = Vec::new();
    let mut sum = 0.0;
    for token in taken {
        if config.top_p.is_some_and(|p| sum >= p * all) {
            break;
        }
        sum += weight(token);
        nucleus.push((token, weight(token)));
    }
    let largest = nucleus.first().map_or(0.0, |(_, weight)| *weight);
    nucleus.retain(|(_, weight)| config.min_p.is_none_or(|p| *weight >= p * largest));
    let sum: f64 = nucleus.iter().map(|(_, weight)| weight).sum();
    let shares = nucleus.into_iter().map(|(token, of)| (token, of / sum));
    shares.collect()
}

#[test]
fn filters_are_those_of_a_plain_loop() {
    let configs = [
        random(),
        random().with_temperature(0.5),
        random().with_top_k(Some(1)),
        random().with_top_k(Some(4)).with_temperature(2.0),
        random().with_top_k(Some(100)),
        random().with_top_p(Some(0.3)),
        random().with_top_p(Some(0.8)).with_temperature(0.7),
        random().with_top_p(Some(1.0)),
        random().with_top_k(Some(6)).with_top_p(Some(0.6)),
        random().with_min_p(Some(0.3)),
        random()
            .with_min_p(Some(0.2))
            .with_top_p(Some(0.9))
            .with_temperature(1.5),
        random().with_min_p(Some(1.0)),
        random().with_min_p(Some(0.0)),
    ];
    for seed in 0..20 {
        let logits = logits(seed);
        for config in &configs {
            let expected = by_loop(&logits, config);
            let got = Sampling::Random(config.clone()).distribution(&logits);
            let tokens = |of: &[(usize, f64)]| of.iter().map(|of| of.0).collect::<Vec<_>>();
            assert_eq!(tokens(&got), tokens(&expected), "{config:?}");
            for ((_, got), (_, expected)) in got.iter().zip(&expected) {
                assert!((got - expected).abs() < 1e-12, "{config:?}");
            }
        }
        let greedy = Sampling::Greedy.distribution(&logits);
        assert_eq!(greedy, by_loop(&logits, &random().with_top_k(Some(1))));
    }
}

#[test]
fn all_that_are_as_likely_as_the_last_are_left() {
    let two = random().with_top_k(Some(2));
    let found = Sampling::Random(two.clone()).distribution(&[1.0, 3.0, 2.0, 2.0, 2.0]);
    let tokens: Vec<usize> = found.iter().map(|(token, _)| *token).collect();
    assert_eq!(tokens, [1, 2, 3, 4]);
    assert_eq!(Sampling::Greedy.distribution(&[1.0, 3.0, 3.0]), [(1, 1.0)]);
}

#[test]
fn what_is_no_number_is_not_chosen() {
    const NEVER: f64 = f64::NEG_INFINITY;
    let all = Sampling::Random(random());
    let tokens = |logits: &[f64]| all.distribution(logits);
    assert_eq!(tokens(&[NEVER, 2.0, f64::NAN, 2.0]), [(1, 0.5), (3, 0.5)]);
    let found = tokens(&[f64::INFINITY, 2.0, f64::INFINITY]);
    assert_eq!(found, [(0, 0.5), (2, 0.5), (1, 0.0)]);
    assert_eq!(tokens(&[NEVER, f64::NAN]), []);
    assert_eq!(tokens(&[]), []);
    // Large logits overflow nothing.
    assert_eq!(tokens(&[1e300, -1e300]), [(0, 1.0), (1, 0.0)]);
    let found = Sampling::Greedy.distribution(&[f64::NAN, 1.0, 1.0]);
    assert_eq!(found, [(1, 1.0)]);
}

#[test]
fn numbers_out_of_range_are_refused() {
    let refuses = |expected: &str, config: RandomSamplingConfig| {
        refuses(expected, || Sampling::Random(config).distribution(&[1.0]));
    };
    let temperature = |it| random().with_temperature(it);
    refuses("temperature expected above 0, got 0", temperature(0.0));
    refuses("temperature expected a finite", temperature(f64::NAN));
    let top_k = random().with_top_k(Some(0));
    refuses("top_k expected at least 1, got 0", top_k);
    let top_p = |it| random().with_top_p(Some(it));
    refuses("top_p expected in (0, 1], got 0", top_p(0.0));
    refuses("top_p expected in (0, 1], got 1.5", top_p(1.5));
    let min_p = random().with_min_p(Some(-0.1));
    refuses("min_p expected in [0, 1], got -0.1", min_p);
}
