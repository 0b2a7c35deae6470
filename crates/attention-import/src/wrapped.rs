//! Name parts inserted by wrappers of modules.

use crate::state_dict::{StateDict, common};

/// Name parts that compiled and distributed modules of PyTorch insert.
const WRAPPERS: &str = "module _orig_mod _fsdp_wrapped_module _checkpoint_wrapped_module";

/// The name of a tensor without the parts inserted by wrappers.
pub fn unwrapped(name: &str) -> String {
    let is_own = |part: &&str| !WRAPPERS.split(' ').any(|wrapper| wrapper == *part);
    let parts = name.split('.').filter(is_own);
    parts.collect::<Vec<_>>().join(".")
}

/// The path of a Keras variable, as in a state dict on PyTorch or in a checkpoint.
fn variable(name: &str) -> String {
    if name.contains("/.OPTIMIZER_SLOT/") {
        return format!(".OPTIMIZER_SLOT/{name}");
    }
    let path = name.rsplit("_torch_params.").next().unwrap_or(name);
    let path = path.trim_end_matches("/.ATTRIBUTES/VARIABLE_VALUE");
    let path = path.trim_end_matches(":0");
    match path.strip_suffix("query_layer/kernel") {
        Some(head) => format!("{head}kernel"),
        None => path.to_string(),
    }
}

impl StateDict {
    /// The prefix with wrapper parts inserted, if no name begins with the prefix itself.
    pub(crate) fn wrapped_prefix(&self) -> Option<&str> {
        let prefix = self.prefix.as_str();
        let mut prefixes = self.all_names().filter_map(|name| {
            let dots = name.match_indices('.').rev();
            let mut heads = dots.map(|(dot, _)| &name[..=dot]);
            let own = name.starts_with(prefix).then_some(prefix);
            heads.find(|head| unwrapped(head) == *prefix).or(own)
        });
        let first = prefixes.next()?;
        (first != prefix && prefixes.all(|other| other == first)).then_some(first)
    }

    /// The file by the paths of Keras' variables, if its own names differ. An `AttentionWrapper` has the variables of
    /// its attention under two paths, `decoder/attention_wrapper/BahdanauAttention/attention_v` and
    /// `decoder/BahdanauAttention/memory_layer/kernel`: the result has all under the first, whether the prefix is the
    /// first, the second or their common beginning.
    pub(crate) fn of_variables(&self) -> Option<Self> {
        const MEMORY: &str = "memory_layer/kernel";
        let names: Vec<String> = self.all_names().map(|name| variable(name)).collect();
        let prefix = variable(&self.prefix);
        let heads = |own: &'static str| names.iter().filter_map(move |name| name.strip_suffix(own));
        let score = || heads("attention_v").chain(heads("attention_g"));
        let pairs = heads(MEMORY)
            .flat_map(|memory| score().map(move |score| [memory, score]))
            .filter(|pair| pair.iter().any(|head| head.starts_with(&prefix)));
        let nearness = |pair: [&str; 2]| common(pair[0].bytes(), pair[1].bytes());
        let mut pairs: Vec<_> = pairs.map(|pair| (nearness(pair), pair)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let [memory, score] = match pairs[..] {
            [.., (other, _), (nearest, pair)] if other < nearest => pair,
            [(_, pair)] => pair,
            _ => [prefix.as_str(); 2],
        };
        if memory == score && self.all_names().eq(&names) {
            return None;
        }
        let of_memory = format!("{memory}{MEMORY}");
        let rename = |name: &str| match variable(name) {
            name if name == of_memory => format!("{score}{MEMORY}"),
            name => name,
        };
        Some(Self {
            checkpoint: self.checkpoint.clone().renamed(rename).ok()?,
            ..self.at(score)
        })
    }
}
