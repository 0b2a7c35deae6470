//! A setting as its text on the command line.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(super) fn serialize<T: Display, S: Serializer>(
    setting: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    setting.as_ref().map(T::to_string).serialize(serializer)
}

pub(super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    let setting = text.map(|text| text.parse().map_err(D::Error::custom));
    setting.transpose()
}
