//! The program `seq2seq`.

// It keeps freed memory for the next tensor: glibc returns large tensors to the system, so their pages fault again in
// every step.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    seq2seq::main()
}
