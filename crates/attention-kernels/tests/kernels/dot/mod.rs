//! The dot-product kernels.

mod case;
mod differences;
mod masked_cases;
mod masks;
mod misfits;
mod modifying;
mod non_finite;
mod oracle;
mod precision;
mod sizes;
mod threads;
