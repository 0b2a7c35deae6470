//! The works to compute, and how much goes in and comes out.

use burn::tensor::DType;
use serde_json::{Value, json};

/// Which attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Projections of queries and keys included.
    Additive,
    /// One step of a decoder: the keys were projected before.
    Decoding,
    /// Scaled dot products.
    DotProduct,
}

impl Kind {
    /// As `baselines/attention.py` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Additive => "additive",
            Kind::Decoding => "decoding",
            Kind::DotProduct => "dot product",
        }
    }
}

/// How much of a training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The context.
    Forward,
    /// Forward, then the gradients of all inputs and parameters.
    Backward,
}

/// Both, in the order of a table's columns.
pub const PASSES: [Pass; 2] = [Pass::Forward, Pass::Backward];

impl Pass {
    /// As `baselines/attention.py` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Pass::Forward => "forward",
            Pass::Backward => "backward",
        }
    }
}

/// One thing to compute; additive attention has one head, dot-product attention no hidden units.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Which attention.
    pub kind: Kind,
    /// The examples.
    pub batch: usize,
    /// The heads of each.
    pub heads: usize,
    /// The queries of each.
    pub queries: usize,
    /// The keys of each.
    pub keys: usize,
    /// The size of a query, a key that is not projected, a value.
    pub size: usize,
    /// The hidden units.
    pub hidden: usize,
    /// The type of all tensors.
    pub dtype: DType,
}

impl Work {
    /// Additive attention with as many hidden units as features, in f32.
    pub fn additive(kind: Kind, batch: usize, [queries, keys]: [usize; 2], size: usize) -> Self {
        Self {
            kind,
            batch,
            heads: 1,
            queries,
            keys,
            size,
            hidden: size,
            dtype: DType::F32,
        }
    }

    /// Dot-product attention of 8 heads of 64, in f32.
    pub fn dot_product(batch: usize, rows: usize) -> Self {
        Self {
            kind: Kind::DotProduct,
            batch,
            heads: 8,
            queries: rows,
            keys: rows,
            size: 64,
            hidden: 0,
            dtype: DType::F32,
        }
    }

    /// The name in tables.
    pub fn title(&self) -> String {
        let (batch, heads, hidden) = (self.batch, self.heads, self.hidden);
        let sizes = format!("q{} k{} d{}", self.queries, self.keys, self.size);
        let title = match self.kind {
            Kind::Additive => format!("additive b{batch} {sizes} h{hidden}"),
            Kind::Decoding => format!("additive, decoding step b{batch} {sizes} h{hidden}"),
            Kind::DotProduct => format!("dot product b{batch} heads{heads} {sizes}"),
        };
        match self.dtype {
            DType::F32 => title,
            dtype => format!("{title} {}", dtype.name()),
        }
    }

    /// As `baselines/attention.py` reads it; `kind` may be another, of the same sizes.
    pub fn setup(&self, candidate: &str, kind: Kind, pass: Pass, device: &str) -> Value {
        let dtype = match self.dtype {
            DType::F16 => "float16",
            _ => "float32",
        };
        json!({
            "candidate": candidate,
            "pass": pass.name(),
            "device": device,
            "dtype": dtype,
            "work": {
                "kind": kind.name(),
                "batch": self.batch,
                "heads": self.heads,
                "queries": self.queries,
                "keys": self.keys,
                "size": self.size,
                "hidden": self.hidden,
            },
        })
    }

    /// The pairs of a query and a key.
    pub fn pairs(&self) -> usize {
        self.batch * self.heads * self.queries * self.keys
    }

    /// The numbers of the context.
    pub fn context(&self) -> usize {
        self.batch * self.heads * self.queries * self.size
    }

    /// The numbers of inputs and parameters.
    pub fn inputs(&self) -> usize {
        let Self { size, hidden, .. } = *self;
        let key_size = match self.kind {
            Kind::Decoding => hidden,
            Kind::Additive | Kind::DotProduct => size,
        };
        let parameters = match self.kind {
            Kind::Additive => 2 * size * hidden + hidden,
            Kind::Decoding => size * hidden + hidden,
            Kind::DotProduct => 0,
        };
        let rows = self.batch * self.heads;
        rows * (self.queries * size + self.keys * (size + key_size)) + parameters
    }

    /// The bytes that a pass must return: the context, and the gradients of inputs and parameters.
    pub fn result_bytes(&self, pass: Pass) -> u64 {
        let numbers = match pass {
            Pass::Forward => self.context(),
            Pass::Backward => self.context() + self.inputs(),
        };
        (numbers * self.dtype.size()) as u64
    }

    /// The bytes of the largest tensor of the composed attention.
    pub fn largest_composed_bytes(&self) -> u64 {
        let numbers = self.pairs() * self.hidden.max(1);
        (numbers * self.dtype.size()) as u64
    }
}
