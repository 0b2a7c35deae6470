//! Checks of settings that all models share.

use crate::error::{Error, Result};

/// The largest number of layers of a model.
const MOST_LAYERS: usize = 1024;

/// The largest number of parameters of a model: more than any machine holds.
const MOST_PARAMETERS: f64 = 1e13;

pub(super) fn check_sizes(sizes: &[(&str, usize)]) -> Result<()> {
    match sizes.iter().find(|(_, size)| *size == 0) {
        Some((what, size)) => Err(Error::config(*what, "at least 1", size)),
        None => Ok(()),
    }
}

pub(super) fn check_layers(layers: usize) -> Result<()> {
    if layers > MOST_LAYERS {
        let expected = format!("at most {MOST_LAYERS}");
        return Err(Error::config("the number of layers", &expected, layers));
    }
    Ok(())
}

pub(super) fn check_dropout(dropout: f64) -> Result<()> {
    if !(0.0..1.0).contains(&dropout) {
        let expected = "at least 0 and less than 1";
        return Err(Error::config("the dropout", expected, dropout));
    }
    Ok(())
}

pub(super) fn check_parameters(parameters: f64) -> Result<()> {
    if parameters > MOST_PARAMETERS {
        let expected = format!("at most {MOST_PARAMETERS:e} parameters");
        let found = format!("some {parameters:.1e}");
        return Err(Error::config("the model", &expected, found));
    }
    Ok(())
}
