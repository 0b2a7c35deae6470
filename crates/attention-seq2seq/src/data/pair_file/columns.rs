//! The columns of a file whose lines are divided by TAB.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The columns of source and target, and of tags where there are some, counted from 1.
///
/// Reads as the numbers of source and target, `1,2`, or as the roles of the columns in their order: `source` (or
/// `lemma`), `target` (or `form`), `tags` and `-` for one that is left out. Tags are divided by `;`, and each is a
/// token before the source's, such as `V;` and `PST;`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Columns {
    /// The source's column.
    pub source: usize,
    /// The target's column.
    pub target: usize,
    /// The column of tags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<usize>,
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            source: 1,
            target: 2,
            tags: None,
        }
    }
}

impl Columns {
    pub(super) fn check(self) -> Result<Self> {
        let columns = [Some(self.source), Some(self.target), self.tags];
        let columns: Vec<usize> = columns.into_iter().flatten().collect();
        let is_twice = |at: usize| columns[..at].contains(&columns[at]);
        if columns.contains(&0) || (0..columns.len()).any(is_twice) {
            let numbers: Vec<String> = columns.iter().map(usize::to_string).collect();
            return Err(Self::error(&numbers.join(",")));
        }
        Ok(self)
    }

    fn error(found: &str) -> Error {
        let expected = "the source's and the target's column counted from 1, such as 1,2 or 2,1, or the role of each \
                        column, such as source,target,tags or source,-,target";
        Error::config("columns", expected, format!("{found:?}"))
    }

    fn of_roles(roles: &str) -> Option<Self> {
        let (mut source, mut target, mut tags) = (None, None, None);
        for (role, column) in roles.split(',').zip(1..) {
            let place = match role.trim() {
                "source" | "lemma" => &mut source,
                "target" | "form" => &mut target,
                "tags" => &mut tags,
                "-" => continue,
                _ => return None,
            };
            if place.replace(column).is_some() {
                return None;
            }
        }
        Some(Self {
            source: source?,
            target: target?,
            tags,
        })
    }

    /// The columns that two numbers stand for.
    fn of_numbers(numbers: &str) -> Option<Self> {
        let (source, target) = numbers.split_once(',')?;
        Some(Self {
            source: source.trim().parse().ok()?,
            target: target.trim().parse().ok()?,
            tags: None,
        })
    }
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            target,
            tags,
        } = *self;
        let Some(tags) = tags else {
            return write!(f, "{source},{target}");
        };
        for column in 1..=source.max(target).max(tags) {
            let comma = if column == 1 { "" } else { "," };
            let role = match column {
                _ if column == source => "source",
                _ if column == target => "target",
                _ if column == tags => "tags",
                _ => "-",
            };
            write!(f, "{comma}{role}")?;
        }
        Ok(())
    }
}

impl FromStr for Columns {
    type Err = Error;

    /// # Errors
    /// [`Error::Config`] for anything but two different numbers from 1 on with a comma between them, or roles with one
    /// source, one target and at most one column of tags.
    fn from_str(spec: &str) -> Result<Self> {
        let columns = Self::of_numbers(spec).or_else(|| Self::of_roles(spec));
        let checked = columns.map(Self::check).and_then(Result::ok);
        checked.ok_or_else(|| Self::error(spec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_two_different_numbers_from_one() {
        let columns = "2,1".parse::<Columns>().unwrap();
        assert_eq!((columns.source, columns.target, columns.tags), (2, 1, None));
        let default = Columns::default();
        assert_eq!(default.to_string().parse::<Columns>().unwrap(), default);
        let specs = "|1|1,|0,1|1,1|1,2,3|a,b|-1,2|source|source,tags|source,source,target|source,target,tags,tags|\
                     source,target,|source,2|target,form|SOURCE,target";
        for spec in specs.split('|') {
            let error = spec.parse::<Columns>().unwrap_err().to_string();
            assert!(error.contains(&format!("found {spec:?}")), "{error}");
        }
    }

    #[test]
    fn roles_come_in_any_order_and_may_be_left_out() {
        for (spec, source, target, tags, shown) in [
            ("source,target", 1, 2, None, "1,2"),
            ("-,target,-,source", 4, 2, None, "4,2"),
            ("lemma, form, tags", 1, 2, Some(3), "source,target,tags"),
            ("lemma,tags,form", 1, 3, Some(2), "source,tags,target"),
            ("tags,-,form,lemma", 4, 3, Some(1), "tags,-,target,source"),
        ] {
            let columns = spec.parse::<Columns>().unwrap();
            assert_eq!(
                columns,
                Columns {
                    source,
                    target,
                    tags
                }
            );
            assert_eq!(columns.to_string(), shown);
            assert_eq!(shown.parse::<Columns>().unwrap(), columns);
        }
    }
}
