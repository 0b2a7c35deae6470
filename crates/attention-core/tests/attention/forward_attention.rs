//! Forward attention: weights that move on by one key or stay.

use attention_core::stateful::{
    AttentionState, ForwardAttention, ForwardAttentionConfig, ForwardState, StatefulAttention,
};
use attention_core::{AdditiveAttention, AdditiveAttentionConfig, Mask, Memory};
use attention_tests::{Array, assert_all_same, assert_close, assert_same, device, refuses};
use burn::module::Param;
use burn::tensor::{Bool, Device, Tensor};

const QUERY: usize = 3;
const VALUE: usize = 5;
/// Features of the decoder's output.
const OUTPUT: usize = 2;

type Forward = ForwardAttention<AdditiveAttention>;

/// With a transition agent.
fn with_agent(device: &Device) -> Forward {
    let inner = AdditiveAttentionConfig::new(QUERY, VALUE, 4).init(device);
    ForwardAttentionConfig::new().init_with_agent(inner, [VALUE, OUTPUT, QUERY], device)
}

/// The same whose agent says `logit` whatever it reads.
fn with_constant(mut attention: Forward, logit: f64) -> Forward {
    let agent = attention.agent.as_mut().expect("made with one");
    agent.weight = Param::from_tensor(agent.weight.val().zeros_like());
    let bias = agent.bias.as_ref().expect("made with one").val();
    agent.bias = Some(Param::from_tensor(bias.full_like(logit)));
    attention
}

/// Two examples of equal keys: the first has four, the second three.
fn memory(attention: &Forward, device: &Device) -> Memory {
    let keys = Tensor::<3>::ones([2, 4, VALUE], device);
    let lens = Tensor::from_ints([4, 3], device);
    attention.prepare(keys.clone(), keys, Mask::valid_lens(lens))
}

/// The weights after each of `steps` steps, and the last state.
fn run(attention: &Forward, steps: u64, device: &Device) -> (Vec<Array>, ForwardState<()>) {
    let memory = memory(attention, device);
    let mut state = attention.initial_state(&memory);
    let weights = (0..steps).map(|step| {
        let query = Array::draw(step, &[2, 1, QUERY]).f32::<3>(device);
        let output = Array::draw(10 + step, &[2, OUTPUT]).f32::<2>(device);
        let before = state.clone().with_output(output);
        let (output, next) = attention.step_with_weights(query, &memory, before);
        state = next;
        Array::read(output.weights)
    });
    (weights.collect(), state)
}

/// The weight before the first step is none on masked keys, wherever these are.
#[test]
fn the_rest_is_on_unmasked_keys() {
    device::each(|device| {
        let inner = AdditiveAttentionConfig::new(QUERY, VALUE, 4).init(device);
        let attention = ForwardAttentionConfig::new().with_rest(0.5).init(inner);
        let rows = || Tensor::<3>::ones([1, 4, VALUE], device);
        let keep = Tensor::<2, Bool>::from_data([[false, true, false, true]], device);
        let memory = attention.prepare(rows(), rows(), Mask::not_padding(keep));
        let weights = attention.initial_state(&memory).weights;
        assert_same("rest", weights, &Array::new(&[1, 4], [0.0, 1.0, 0.0, 0.5]));
    });
}

#[test]
fn an_agent_that_does_not_know_moves_on_half_of_the_time() {
    device::each_training(|device| {
        let agent = with_constant(with_agent(device), 0.0);
        let mut without = agent.clone();
        without.agent = None;
        let [got, expected] = [&agent, &without].map(|of| run(of, 3, device).0);
        assert_all_same("weights", &got, &expected);
    });
}

#[test]
fn an_agent_says_how_the_next_step_moves() {
    device::each_training(|device| {
        for (logit, second) in [(40.0, [0.0, 0.5, 0.5, 0.0]), (-40.0, [0.5, 0.5, 0.0, 0.0])] {
            let (weights, _) = run(&with_constant(with_agent(device), logit), 2, device);
            for (step, expected) in [[0.5, 0.5, 0.0, 0.0], second].iter().enumerate() {
                let expected = Array::from_fn(&[2, 1, 4], |at| expected[at[2]]);
                assert_close(format!("{logit}, {step}"), &weights[step], &expected, 1e-5);
            }
        }
    });
}

#[test]
fn an_agent_learns_from_the_second_step_on() {
    device::each_training(|device| {
        let attention = with_agent(device);
        let agent = attention.agent.as_ref().expect("made with one");
        let learned = [1, 2].map(|steps| {
            let memory = memory(&attention, device);
            let mut state = attention.initial_state(&memory);
            let mut first = Tensor::zeros([1], device);
            for step in 0..steps {
                let query = Array::draw(step, &[2, 1, QUERY]).f32::<3>(device);
                let before = state.with_output(Tensor::ones([2, OUTPUT], device));
                let (output, next) = attention.step_with_weights(query, &memory, before);
                state = next;
                first = output.weights.narrow(2, 0, 1).sum();
            }
            let gradient = agent.weight.val().grad(&first.backward());
            gradient.is_some_and(|of| Array::read(of).magnitude() > 0.0)
        });
        assert_eq!(learned, [false, true]);
    });
}

#[test]
fn an_output_of_another_batch_is_refused() {
    let device = &device::plain()[0];
    let attention = with_agent(device);
    let memory = memory(&attention, device);
    let state = attention.initial_state(&memory);
    let state = state.with_output(Tensor::ones([3, OUTPUT], device));
    let query = Tensor::ones([2, 1, QUERY], device);
    let step = || attention.step_with_weights(query, &memory, state);
    refuses("expected an output of batch 2 before the step, got 3", step);
}

#[test]
fn a_beam_takes_the_state_along() {
    device::each(|device| {
        let attention = with_agent(device);
        let (_, state) = run(&attention, 2, device);
        let selected = state.select(Tensor::from_ints([1, 0, 1], device));
        let weights = (selected.weights, state.weights);
        for (got, of) in [weights, (selected.advance, state.advance)] {
            let of = Array::read(of);
            let shape = [3, of.shape[1]];
            let expected = Array::from_fn(&shape, |at| of.at(&[[1, 0, 1][at[0]], at[1]]));
            assert_same("selected", &Array::read(got), &expected);
        }
    });
}

#[test]
fn an_agent_without_the_output_that_it_reads_says_so() {
    let device = Device::flex();
    let attention = with_agent(&device);
    let memory = memory(&attention, &device);
    let state = attention.initial_state(&memory);
    let query = Tensor::<3>::ones([2, 1, QUERY], &device);
    let expected = "expected context, output and query of 10 features together";
    let step = || attention.step_with_weights(query, &memory, state);
    refuses(expected, step);
}
