//! The model in a file of a checkpoint, and the file of a model.

use burn::module::Module;
use burn::store::{ModuleRecord, RecordError};
use burn::tensor::Bytes;

use crate::model::AnyModel;

/// The parameters in a checkpoint, by the names that those of a `Trainee` have.
#[derive(Module, Debug)]
struct Saved {
    model: AnyModel,
}

/// `model`, with the parameters in the content of a checkpoint's file.
pub(crate) fn load_model(
    model: AnyModel,
    content: Vec<u8>,
) -> std::result::Result<AnyModel, RecordError> {
    let record = ModuleRecord::from_bytes(Bytes::from_bytes_vec(content))?;
    Ok(Saved { model }.try_load_record(record)?.model)
}
