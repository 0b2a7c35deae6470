//! The program `seq2seq`.

// It keeps what is freed for the next tensor: glibc gives large tensors back to the system, and has their pages faulted
// in again in every step.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    seq2seq::main()
}
