//! Trains any Burn module on several processes: each computes gradients of its share of a batch, and one message sums
//! them. `Training::launch_on` does the same for the models of attention-seq2seq.
//!
//! `cargo build -p attention-examples --features mpi --example data_parallel`, then
//! `mpirun -n 2 target/debug/examples/data_parallel`

use attention_seq2seq::train::{Adam, Communicator, sum_gradients, with_launched};
use attention_seq2seq::{Result, open_device};
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, Distribution, Tensor};

const STEPS: usize = 1000;
/// The examples of a step, of all processes together.
const BATCH: usize = 64;
const INPUTS: usize = 8;

/// The mean squared error of the sum of the inputs, over the share of a process.
fn loss(model: &Linear, share: usize, device: &Device) -> Tensor<1> {
    let inputs = Tensor::<2>::random([share, INPUTS], Distribution::Default, device);
    let targets = inputs.clone().sum_dim(1);
    (model.forward(inputs) - targets).square().mean()
}

fn main() -> Result<()> {
    with_launched(train, |_, line| {
        eprintln!("{line}");
        2
    })
}

fn train(ranks: &dyn Communicator) -> Result<()> {
    let device = open_device("flex")?.autodiff();
    device.seed(0);
    let mut model = LinearConfig::new(INPUTS, 1).init(&device);
    // Burn draws parameters at their first use: here, from the same seed everywhere.
    let _ = loss(&model, 1, &device);
    // Other examples in each process.
    device.seed(1 + ranks.rank() as u64);
    let share = BATCH / ranks.size() + usize::from(ranks.rank() < BATCH % ranks.size());
    let mut adam: ModuleOptimizer = Adam::new().into();
    for step in 0..STEPS {
        let loss = loss(&model, share, &device);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        // The mean over the batch: each process counts by its share.
        let weight = share as f32 / BATCH as f32;
        let gradients = sum_gradients(ranks, gradients, &model, weight)?;
        model = adam.step(0.05, model, gradients);
        if ranks.rank() == 0 && step % 250 == 249 {
            println!("step {}: loss {:.5}", step + 1, loss.into_scalar::<f32>());
        }
    }
    Ok(())
}
