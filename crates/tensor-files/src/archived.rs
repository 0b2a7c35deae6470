//! Files that are zip archives: those of `torch.save` since PyTorch 1.6, of TorchScript, of `torch.export`, of Keras
//! and of NumPy.

use std::cell::RefCell;
use std::fs::File;
use std::rc::Rc;

#[cfg(feature = "hdf5")]
use crate::archive::Contents;
use crate::archive::{Archive, MAX_HEADER};
#[cfg(feature = "hdf5")]
use crate::hdf5;
use crate::input::Input;
use crate::objects::{self, Elements};
use crate::pickle::Pickle;
use crate::stored::{Place, Tensors};
use crate::{FileFormat, exported, foreign, npy};

/// The entry of a `.keras` file that has the weights.
#[cfg(feature = "hdf5")]
const KERAS: &str = "model.weights.h5";

/// The format and the tensors of an archive, whose entries tell which program wrote it.
pub(crate) fn tensors(file: File) -> Result<(FileFormat, Tensors), String> {
    let mut archive = Archive::open(file)?;
    if archive.find_root("data.pkl")? {
        return Ok((FileFormat::PyTorch, pickled(archive)?));
    }
    if archive.find_root(exported::CONFIG)? {
        return Ok((FileFormat::PyTorch, exported::tensors(archive)?));
    }
    #[cfg(feature = "hdf5")]
    if archive.find_root(KERAS)? {
        let Contents::Stored { bytes, .. } = archive.contents(KERAS)? else {
            return Err(format!("its entry `{KERAS}` is compressed: unpack it"));
        };
        let tensors = hdf5::tensors(archive.into_file(), bytes);
        return Ok((FileFormat::Keras, tensors?));
    }
    if !archive.names_with_end(npy::END).is_empty() {
        return Ok((FileFormat::NumPy, npy::tensors(archive)));
    }
    let entries = archive.names_with_end("");
    let format = entries.iter().find_map(|name| foreign::of_entry(name));
    Err(foreign::refused(format.unwrap_or(foreign::ARCHIVE)))
}

/// The tensors of an archive's pickle.
fn pickled(mut archive: Archive) -> Result<Tensors, String> {
    let pickle = archive.small("data.pkl", MAX_HEADER)?;
    let pickle = Pickle::read(&mut Input::of_bytes(&pickle))?;
    let archive = Rc::new(RefCell::new(archive));
    objects::tensors(pickle, move |elements| {
        let (name, start) = match elements {
            Elements::Storage(key) => (format!("data/{key}"), 0),
            Elements::Bytes(bytes) => ("data.pkl".to_string(), bytes.start as usize),
        };
        Ok(Place::Entry(archive.clone(), name, start))
    })
}
