//! The `.pt2` of `torch.export` since PyTorch 2.8: a table in JSON, and an entry for each storage.

use std::cell::RefCell;
use std::rc::Rc;

use serde_json::Value;

use crate::ElementType;
use crate::archive::{Archive, MAX_HEADER};
use crate::layout::Layout;
use crate::stored::{FoundTensor, Place, StoredTensor, Tensors};

/// The table of parameters and buffers.
pub(crate) const CONFIG: &str = "data/weights/model_weights_config.json";

/// The parameters and buffers by name.
pub(crate) fn tensors(mut archive: Archive) -> Result<Tensors, String> {
    let config: Value =
        serde_json::from_slice(&archive.small(CONFIG, MAX_HEADER)?).unwrap_or_default();
    let table = config["config"].as_object();
    let table =
        table.ok_or_else(|| format!("expected `{CONFIG}` with a table `config` in JSON"))?;
    let archive = Rc::new(RefCell::new(archive));
    let found = |(name, entry): (&String, _)| (name.clone(), tensor(&archive, entry));
    Ok(Tensors::of(table.iter().map(found).collect()))
}

fn tensor(archive: &Rc<RefCell<Archive>>, entry: &Value) -> FoundTensor {
    let about = &entry["tensor_meta"];
    // PyTorch's number of a dense tensor's layout.
    if about["layout"] != 7 || entry["use_pickle"] != false {
        return Err("expected a dense tensor, got one of another layout".to_string());
    }
    let element_type = ElementType::of(&format!("torch.export:{}", about["dtype"]))?;
    let size = |size: &Value| usize::try_from(size["as_int"].as_u64()?).ok();
    let sizes = |name: &str| {
        let sizes = about[name].as_array()?.iter().map(size);
        sizes.collect::<Option<Vec<_>>>()
    };
    let offset = size(&about["storage_offset"]);
    let view = (sizes("sizes"), sizes("strides"), offset);
    let (Some(shape), Some(strides), Some(offset)) = view else {
        return Err("its shape, strides or offset are not natural numbers".to_string());
    };
    let file = entry["path_name"].as_str().unwrap_or_default();
    let name = format!("data/weights/{file}");
    let (_, len) = archive.borrow_mut().start(&name, 0)?;
    let capacity = len as usize / element_type.size();
    let layout = Layout::new(element_type, shape, strides, offset, capacity)?;
    let place = Place::Entry(archive.clone(), name, 0);
    Ok(StoredTensor::new(layout, place))
}
