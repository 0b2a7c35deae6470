//! A build without subwords.

use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Error, Result};

const EXPECTED: &str = "a build with the feature `subwords`";

/// Never constructed.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub(super) enum Pieces {}

impl Pieces {
    pub(super) fn learn(_words: &[String], _count: usize) -> Result<Self> {
        Err(Error::config("subwords", EXPECTED, "one without it"))
    }

    pub(super) fn len(&self) -> usize {
        match *self {}
    }

    pub(super) fn all(&self) -> Vec<String> {
        match *self {}
    }

    pub(super) fn split(&self, _word: &str) -> Vec<String> {
        match *self {}
    }
}

impl<'de> Deserialize<'de> for Pieces {
    fn deserialize<D: Deserializer<'de>>(_pieces: D) -> std::result::Result<Self, D::Error> {
        let line = format!("subwords: expected {EXPECTED}, found one without it");
        Err(serde::de::Error::custom(line))
    }
}
