//! Normalizations in files written by PyTorch.

use attention_import::{Reason, StateDict};

use crate::norm::Norm;

/// Loads normalizations from a [`StateDict`].
pub(crate) trait ReadNorm {
    /// `norm` with the gain `name.weight` and the bias `name.bias`, if it has one.
    fn norm(&self, norm: Norm, name: &str) -> Result<Norm, Reason> {
        self.norm_of_offset(norm, name, 0.0)
    }

    /// [`norm`](Self::norm), if there is one.
    fn optional_norm(&self, norm: &mut Option<Norm>, name: &str) -> Result<(), Reason> {
        let loaded = norm.take().map(|norm| self.norm(norm, name));
        *norm = loaded.transpose()?;
        Ok(())
    }

    /// `norm` with the gain `offset + name.weight`; otherwise as [`norm`](Self::norm).
    fn norm_of_offset(&self, norm: Norm, name: &str, offset: f64) -> Result<Norm, Reason>;
}

impl ReadNorm for StateDict {
    fn norm_of_offset(&self, mut norm: Norm, name: &str, offset: f64) -> Result<Norm, Reason> {
        let [gain, bias] = ["weight", "bias"].map(|kind| format!("{name}.{kind}"));
        norm.gamma = self.parameter_of_offset(norm.gamma, &gain, offset)?;
        norm.beta = match norm.beta {
            Some(beta) => Some(self.parameter(beta, &bias)?),
            None => {
                self.refuse(&bias, "the normalization has no bias")?;
                None
            }
        };
        Ok(norm)
    }
}
