//! The recurrent layers against plain loops in `f64`.

mod absent;
mod case;
mod differences;
mod gates;
mod oracle;
mod padding;
mod precision;
mod sizes;
mod threads;
