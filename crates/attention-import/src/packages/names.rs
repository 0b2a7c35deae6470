//! The names of a class's tensors, and the class in a file.

use super::Role;
use super::shapes::Sizes;
use crate::state_dict::StateDict;

/// The tensors of a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    /// The package and the class, as an error names them.
    pub(super) class: &'static str,
    pub(super) tables: &'static [Entries],
    /// The number of heads, where a file does not say it.
    pub(super) num_heads: Option<usize>,
}

/// A tensor of a class: the name after the prefix, the use, and the axes as [`shapes`](super::shapes) has them, with a
/// `?` where a file may be without it.
///
/// `|` stands between spellings of a name; `#` is the number of a layer, and `~` nothing for the first layer and `_1`
/// for the second. The name `*` is any other.
pub(super) type Entry = (&'static str, Role, &'static str);
pub(super) type Entries = &'static [Entry];

/// A tensor of a class in a file.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) layer: usize,
    pub(super) role: Role,
    pub(super) shape: &'static str,
}

/// The spellings of an entry's name in a layer.
fn spellings(name: &str, layer: usize) -> impl Iterator<Item = String> {
    let number = layer.to_string();
    let count = if layer > 0 {
        format!("_{layer}")
    } else {
        String::new()
    };
    let of_layer = move |name: &str| name.replace('#', &number).replace('~', &count);
    name.split('|').map(of_layer)
}

impl Names {
    /// The tensors that a file has, and those that it should have, in the spelling that it has of each.
    fn entries(&self, file: &StateDict) -> Vec<Named> {
        let entries = || self.tables.iter().copied().flatten();
        let is_layered = |(name, ..): &&Entry| name.contains(['#', '~']);
        let has_layer = |layer: &usize| {
            let mut names = entries().filter(is_layered);
            names.any(|(name, ..)| spellings(name, *layer).any(|name| file.contains(&name)))
        };
        let has_slashes = file.all_names().any(|name| name.contains('/'));
        let layers = 1 + (1..).take_while(has_layer).count();
        let of_layers = entries().flat_map(|entry| {
            let layers = if is_layered(&entry) { layers } else { 1 };
            (0..layers).map(move |layer| (entry, layer))
        });
        let named = |(&(name, role, shape), layer): (&Entry, usize)| Named {
            name: spellings(name, layer)
                .find(|name| file.contains(name))
                .or_else(|| spellings(name, layer).find(|name| name.contains('/') == has_slashes))
                .or_else(|| spellings(name, layer).next())
                .unwrap_or_default(),
            layer,
            role,
            shape,
        };
        of_layers.map(named).collect()
    }

    /// The tensors of the class in a file, and its sizes.
    ///
    /// # Errors
    /// If a tensor is missing, there is one too many, or a shape does not fit those before it.
    pub(super) fn fit(&self, file: &StateDict) -> Result<(Vec<Named>, Sizes), String> {
        let mut entries = self.entries(file);
        for entry in entries.iter().filter(|entry| !entry.shape.ends_with('?')) {
            file.shape(&entry.name)?;
        }
        let names = entries.iter().map(|entry| entry.name.as_str());
        let is_its = |own: &str, name: &str| own == "*" || file.is_part(name, own);
        let is_extra = |name: &&str| !names.clone().any(|own| is_its(own, name));
        if let Some(name) = file.names().find(is_extra) {
            file.refuse(name, &format!("{} has none of this name", self.class))?;
        }
        entries.retain(|entry| entry.role != Role::Ignored && file.contains(&entry.name));
        let mut sizes = Sizes::of_heads(self.num_heads);
        for entry in &entries {
            let (got, full) = (file.shape(&entry.name)?, file.full(&entry.name));
            let fitted = sizes.fit(entry.shape.trim_end_matches('?'), &got, entry.layer);
            fitted.map_err(|shape| format!("`{full}`: expected the shape {shape}, got {got:?}"))?;
        }
        Ok((entries, sizes))
    }
}
