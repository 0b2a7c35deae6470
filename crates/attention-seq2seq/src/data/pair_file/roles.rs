//! The places of source, target and tags in a line.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::line::{LineError, LineResult, Texts};
use crate::error::{Error, Result};
use crate::text::tags::with_tags;

/// The places of source and target in a line, and of tags if there are any: [`Columns`] or [`JsonFields`].
///
/// Tags are separated by `;`, and each is a token before the tokens of the source, such as `V;` and `PST;`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roles<T> {
    /// The place of the source.
    pub source: T,
    /// The place of the target.
    pub target: T,
    /// The place of tags, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<T>,
}

/// The columns of a file whose columns are separated by TAB, counted from 1; by default 1 and 2.
///
/// Parsed from the numbers of source and target, `1,2`, or from the roles of the columns in their order: `source` (or
/// `lemma`), `target` (or `form`), `tags`, and `-` for a column to skip.
pub type Columns = Roles<usize>;

/// The names of the fields of a JSON object; by default `source` and `target`. Parsed from and printed as
/// `source,target` or `source,target,tags`.
pub type JsonFields = Roles<String>;

impl<T: PartialEq> Roles<T> {
    /// These places, if each is valid and has only one role.
    fn checked(self, is_place: impl Fn(&T) -> bool) -> Option<Self> {
        let places = [Some(&self.source), Some(&self.target), self.tags.as_ref()];
        let places: Vec<&T> = places.into_iter().flatten().collect();
        let is_twice = |at: usize| places[..at].contains(&places[at]);
        let are_places = places.iter().copied().all(&is_place);
        let are_different = !(0..places.len()).any(is_twice);
        (are_places && are_different).then_some(self)
    }
}

impl<T> Roles<T> {
    /// The texts of a line; `text` finds the text at a place, and the place's name is for errors.
    pub(super) fn texts<'a>(
        &self,
        text: impl Fn(&str, &T) -> LineResult<&'a str>,
    ) -> LineResult<Texts<'a>> {
        let source = text("a source", &self.source)?;
        let target = Cow::Borrowed(text("a target", &self.target)?);
        let Some(tags) = &self.tags else {
            let source = Cow::Borrowed(source);
            return Ok(Texts { source, target });
        };
        let tags = text("tags", tags)?;
        // Such tags could not be told from the source after them.
        if tags.contains(' ') {
            let expected = "tags divided by ; without spaces";
            return Err(LineError::new(expected, format!("{tags:?}")));
        }
        let source = Cow::Owned(with_tags(tags, source));
        Ok(Texts { source, target })
    }
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
        let checked = self.checked(|column| *column > 0);
        checked.ok_or_else(|| Self::error(&self.to_string()))
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

    /// The columns given by two numbers.
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
        let Self { source, target, .. } = *self;
        let Some(tags) = self.tags else {
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
    /// [`Error::Config`] unless there are two different numbers from 1 on, separated by a comma, or roles with one
    /// source, one target and at most one column of tags.
    fn from_str(spec: &str) -> Result<Self> {
        let columns = Self::of_numbers(spec).or_else(|| Self::of_roles(spec));
        let checked = columns.map(Self::check).and_then(Result::ok);
        checked.ok_or_else(|| Self::error(spec))
    }
}

impl Default for JsonFields {
    fn default() -> Self {
        Self {
            source: "source".to_owned(),
            target: "target".to_owned(),
            tags: None,
        }
    }
}

impl fmt::Display for JsonFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.source, self.target)?;
        match &self.tags {
            Some(tags) => write!(f, ",{tags}"),
            None => Ok(()),
        }
    }
}

impl FromStr for JsonFields {
    type Err = Error;

    /// # Errors
    /// [`Error::Config`] unless there are two or three different names, separated by commas.
    fn from_str(names: &str) -> Result<Self> {
        let fields = match names.split(',').collect::<Vec<_>>()[..] {
            [source, target] => Some((source, target, None)),
            [source, target, tags] => Some((source, target, Some(tags))),
            _ => None,
        };
        let fields = fields.map(|(source, target, tags)| Self {
            source: source.to_owned(),
            target: target.to_owned(),
            tags: tags.map(str::to_owned),
        });
        let checked = fields.and_then(|fields| fields.checked(|name| !name.is_empty()));
        checked.ok_or_else(|| {
            let expected = "the names of the fields of source and target, such as source,target, and of tags, if any";
            Error::config("fields", expected, format!("{names:?}"))
        })
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
            let found = (columns.source, columns.target, columns.tags);
            assert_eq!(found, (source, target, tags));
            assert_eq!(columns.to_string(), shown);
            assert_eq!(shown.parse::<Columns>().unwrap(), columns);
        }
    }

    #[test]
    fn fields_are_two_or_three_different_names() {
        for names in ["source,target", "en,de", "lemma,form,features"] {
            assert_eq!(names.parse::<JsonFields>().unwrap().to_string(), names);
        }
        for names in ["", "en", "en,", ",de", "en,en", "a,b,a", "a,b,", "a,b,c,d"] {
            let error = names.parse::<JsonFields>().unwrap_err().to_string();
            assert!(error.ends_with(&format!("found {names:?}")), "{error}");
        }
    }
}
