//! Scaled dot products: `score[i, j] = scale * (q[i] . k[j])`.

mod decode;
mod stream;

pub(crate) use stream::DotProductScore;
