//! The names of a class's tensors, and finding the class in a file.

use std::cmp::Reverse;

use tensor_files::FileFormat;

use super::Role;
use super::shapes::Sizes;
use crate::Reason;
use crate::state_dict::{StateDict, common};

/// The tensors of a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    /// The package and the class, as errors name them.
    pub(super) class: &'static str,
    pub(super) tables: &'static [Entries],
    /// The number of heads, if files do not contain it.
    pub(super) num_heads: Option<usize>,
    /// The framework, if another one has the same names in its files.
    pub(super) writer: Option<FileFormat>,
}

/// A tensor of a class: the name after the prefix, the use, and the axes in the notation of [`shapes`](super::shapes),
/// with a `?` if a file need not have it.
///
/// `|` separates spellings of a name; `#` is the number of a layer, and `~` is empty for the first layer and `_1` for
/// the second. The name `*` stands for any other.
pub(super) type Entry = (&'static str, Role, &'static str);
pub(super) type Entries = &'static [Entry];

/// A tensor of a class in a file.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) layer: usize,
    pub(super) role: Role,
    pub(super) shape: &'static str,
}

/// The largest number of prefixes to try: each takes a pass over all names.
const MOST_TRIED: usize = 64;

/// The spellings of an entry's name in a layer.
fn spellings(name: &str, layer: usize) -> impl Iterator<Item = String> {
    let number = layer.to_string();
    let count = match layer {
        0 => String::new(),
        _ => format!("_{layer}"),
    };
    let of_layer = move |name: &str| name.replace('#', &number).replace('~', &count);
    name.split('|').map(of_layer)
}

/// Frameworks whose files have the same names but other orders of axes.
const SAME_NAMES: [FileFormat; 3] = [FileFormat::PyTorch, FileFormat::MxNet, FileFormat::Paddle];

impl Names {
    fn all(&self) -> impl Iterator<Item = &Entry> + Clone {
        self.tables.iter().copied().flatten()
    }

    /// The tensors that a file has, and those that it should have. Each is in the spelling of the file; an absent
    /// tensor is in the spelling whose end is nearest to a name of the file.
    fn entries(&self, file: &StateDict) -> Vec<Named> {
        let is_layered = |(name, ..): &&Entry| name.contains(['#', '~']);
        let has_layer = |layer: &usize| {
            let mut names = self.all().filter(is_layered);
            names.any(|(name, ..)| spellings(name, *layer).any(|name| file.contains(&name)))
        };
        let layers = 1 + (1..).take_while(has_layer).count();
        let of_layers = self.all().flat_map(|entry| {
            let layers = if is_layered(&entry) { layers } else { 1 };
            (0..layers).map(move |layer| (entry, layer))
        });
        let end = |own: &String| {
            let names = file.all_names();
            let ends = names.map(|name| common(own.bytes().rev(), name.bytes().rev()));
            Reverse(ends.max())
        };
        let named = |(&(name, role, shape), layer): (&Entry, usize)| Named {
            name: spellings(name, layer)
                .find(|name| file.contains(name))
                .or_else(|| spellings(name, layer).min_by_key(end))
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
    /// If a tensor is missing, there is one too many, a shape does not fit the previous ones, or another framework
    /// wrote the file.
    pub(super) fn fit(&self, file: &StateDict) -> Result<(Vec<Named>, Sizes), Reason> {
        let (class, format) = (self.class, file.format());
        if let Some(writer) = self.writer
            && SAME_NAMES.contains(&format)
            && format != writer
        {
            return Err(format!(
                "expected {class} in {writer}, got {format}, whose names may be the same"
            )
            .into());
        }
        let mut entries = self.entries(file);
        for entry in entries.iter().filter(|entry| !entry.shape.ends_with('?')) {
            file.shape(&entry.name)?;
        }
        let names = entries.iter().map(|entry| entry.name.as_str());
        let is_its = |own: &str, name: &str| own == "*" || file.is_part(name, own);
        let is_extra = |name: &&str| !names.clone().any(|own| is_its(own, name));
        if let Some(name) = file.names().find(is_extra) {
            file.refuse(name, &format!("{class} has none of this name"))?;
        }
        let is_bias = |entry: &&Named| {
            // Biases inside the tanh are summed, so one is enough.
            let others = [Role::Bias, Role::Gain, Role::EnergyBias, Role::Ignored];
            entry.shape.ends_with('?') && !others.contains(&entry.role)
        };
        let mut biases = entries.iter().filter(is_bias);
        let missing = biases.clone().find(|bias| !file.contains(&bias.name));
        if let (Some(bias), Some(missing)) =
            (biases.find(|bias| file.contains(&bias.name)), missing)
        {
            let [bias, missing] = [bias, missing].map(|bias| file.full(&bias.name));
            return Err(Reason::Missing {
                tensor: missing,
                found: format!("found `{bias}` alone: {class} has all biases or none"),
            });
        }
        entries.retain(|entry| entry.role != Role::Ignored && file.contains(&entry.name));
        let is_lstm = entries.iter().any(|entry| {
            let is_gru = entry.role == Role::Hidden && entry.shape.contains("3H");
            let shape = file.shape(&entry.name);
            is_gru && shape.is_ok_and(|s| matches!(s[..], [a, b] if a.max(b) == 4 * a.min(b)))
        });
        let gates = if is_lstm {
            ": an LSTM has four gates, a GRU three"
        } else {
            ""
        };
        let mut sizes = Sizes::of_heads(self.num_heads);
        for entry in &entries {
            let (got, full) = (file.shape(&entry.name)?, file.full(&entry.name));
            let fitted = sizes.fit(entry.shape.trim_end_matches('?'), &got, entry.layer);
            fitted.map_err(|expected| Reason::Shape {
                tensor: full,
                expected,
                got,
                hint: gates.to_owned(),
            })?;
        }
        Ok((entries, sizes))
    }

    /// Whether a file contains the class, with any number of heads if none is given.
    pub(super) fn fits(&self, file: &StateDict) -> bool {
        let of_heads = |num_heads| Self { num_heads, ..*self }.fit(file).is_ok();
        of_heads(self.num_heads) || self.num_heads.is_none() && of_heads(Some(1))
    }

    /// The prefixes under which a file contains the class, if the first tensor is not under its own prefix.
    pub(super) fn prefixes(&self, file: &StateDict) -> Vec<String> {
        let first = self.all().take(1);
        let first: Vec<_> = first.flat_map(|(name, ..)| spellings(name, 0)).collect();
        if first.iter().any(|own| file.contains(own)) {
            return Vec::new();
        }
        let heads = file.all_names().flat_map(|name| {
            let heads = first.iter().filter_map(|own| name.strip_suffix(own));
            heads.filter(|head| head.is_empty() || head.ends_with(['.', '/', '_']))
        });
        let tried = heads.take(MOST_TRIED);
        let fitting = tried.filter(|head| self.fits(&file.at(head)));
        fitting.map(str::to_string).collect()
    }
}
