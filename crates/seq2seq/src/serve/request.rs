//! Requests, by serde.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

use attention_seq2seq::SearchConfig;
use attention_seq2seq::model::LengthPenalty;
use attention_seq2seq::text::UnknownTokens;
use attention_seq2seq::translate::explain::ExplainConfig;
use axum::http::StatusCode;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::answer::Failure;
use crate::output::one_line;

/// The body of `POST /v1/translate`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TranslateRequest {
    pub(super) texts: Vec<String>,
    pub(super) search: Option<Object<Search>>,
    pub(super) unknown: Option<UnknownTokens>,
}

/// The settings of a search, with the names of `seq2seq translate`. The ranges of counts are checked afterwards.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Search {
    beam: Option<f64>,
    n_best: Option<f64>,
    mass: Option<f64>,
    length_penalty: Option<LengthPenalty>,
    coverage_penalty: Option<f64>,
    repetition_penalty: Option<f64>,
    no_repeat_ngram_size: Option<f64>,
    min_length: Option<f64>,
    max_length: Option<f64>,
    prefix: Option<String>,
}

/// The largest number of hypotheses of a source, with which the time of a step grows.
const MOST_BEAMS: usize = 64;

impl Search {
    /// The search, for a model whose outputs have at most `max_len` tokens.
    pub(super) fn config(self, max_len: usize) -> Result<SearchConfig, Failure> {
        let shorter = max_len.saturating_sub(1);
        let min_len = count("search.min_length", self.min_length, 0..=shorter)?;
        let ngrams = "search.no_repeat_ngram_size";
        let ngram_size = count(ngrams, self.no_repeat_ngram_size, 0..=max_len)?;
        Ok(SearchConfig::new()
            .with_beam(count("search.beam", self.beam, 1..=MOST_BEAMS)?)
            .with_n_best(count("search.n_best", self.n_best, 1..=MOST_BEAMS)?)
            .with_mass(self.mass)
            .with_length_penalty(self.length_penalty.unwrap_or_default())
            .with_coverage_penalty(self.coverage_penalty.unwrap_or(0.0))
            .with_repetition_penalty(self.repetition_penalty.unwrap_or(1.0))
            .with_no_repeat_ngram_size(ngram_size.unwrap_or(0))
            .with_min_len(min_len.unwrap_or(0))
            .with_max_len(count("search.max_length", self.max_length, 1..=max_len)?)
            .with_prefix(self.prefix.unwrap_or_default()))
    }
}

/// The body of `POST /v1/explain`: `source`; `prefix`, the target tokens with which the outputs begin (ending in
/// `<eos>` if they are a whole output); `n_best` and `beam`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainRequest {
    pub(super) source: String,
    prefix: Option<Vec<String>>,
    n_best: Option<f64>,
    beam: Option<f64>,
    pub(super) unknown: Option<UnknownTokens>,
}

/// The largest number of outputs of an explanation: each is decoded again for every dropped source token.
const MOST_OUTPUTS: usize = 10;

/// The largest number of weights, changes and alternatives of an explanation: some 5 MB, which a browser draws quickly.
const MOST_NUMBERS: usize = 1_000_000;

impl ExplainRequest {
    pub(super) fn config(&mut self) -> Result<ExplainConfig, Failure> {
        let defaults = ExplainConfig::default();
        let n_best = count("n_best", self.n_best, 1..=MOST_OUTPUTS)?.or(defaults.search.n_best);
        let beam = count("beam", self.beam, 1..=MOST_BEAMS)?;
        Ok(ExplainConfig {
            prefix: self.prefix.take().unwrap_or_default(),
            most_numbers: Some(MOST_NUMBERS),
            search: defaults.search.with_n_best(n_best).with_beam(beam),
            ..defaults
        })
    }
}

/// A whole number within a range.
fn count(
    name: &str,
    value: Option<f64>,
    range: RangeInclusive<usize>,
) -> Result<Option<usize>, Failure> {
    let Some(found) = value else { return Ok(None) };
    let is_whole = found >= 0.0 && found.fract() == 0.0;
    if is_whole && range.contains(&(found as usize)) {
        return Ok(Some(found as usize));
    }
    let (least, most) = (range.start(), range.end());
    let line = format!("{name}: expected a whole number from {least} to {most}, found {found}");
    Err(Failure::unprocessable(line))
}

/// A JSON object: serde's derived readers would also accept an array with its fields in order.
#[derive(Default)]
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

struct Fields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields))
    }
}

/// Reads a body. Errors use JSON's words for the types that serde expects.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    let object = serde_json::from_slice(body);
    object.map(|Object(request)| request).map_err(|error| {
        let line = one_line(&error)
            .replace(", expected a sequence", ", expected an array")
            .replace(", expected f64", ", expected a number");
        Failure::new(StatusCode::BAD_REQUEST, line)
    })
}
