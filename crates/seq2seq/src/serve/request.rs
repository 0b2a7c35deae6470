//! Requests.

use attention_seq2seq::SearchConfig;
use attention_seq2seq::text::UnknownTokens;
use attention_seq2seq::translate::explain::ExplainConfig;

use super::fields::{Fault, Fields, required};

/// A request, of a JSON body, for a model whose outputs have at most `max_len` tokens.
pub(super) trait Request: Sized {
    fn read(body: &[u8], max_len: usize) -> Result<Self, Fault>;
}

/// The body of `POST /v1/translate`: `texts`, and the settings of a search by the names of `seq2seq translate`.
pub(super) struct TranslateRequest {
    pub(super) texts: Vec<String>,
    pub(super) search: SearchConfig,
    pub(super) unknown: UnknownTokens,
}

/// The most hypotheses of a source: the time of a step grows with them.
const MOST_BEAMS: usize = 64;

impl Request for TranslateRequest {
    fn read(body: &[u8], max_len: usize) -> Result<Self, Fault> {
        let mut fields = Fields::of_body(body, &["texts", "search", "unknown"])?;
        let known = [
            "beam",
            "n_best",
            "mass",
            "length_penalty",
            "coverage_penalty",
            "min_length",
            "max_length",
            "prefix",
        ];
        let mut search = fields.object("search", &known)?;
        Ok(Self {
            texts: required(fields.texts("texts")?, "texts")?,
            search: SearchConfig::new()
                .with_beam(search.count("beam", 1..=MOST_BEAMS)?)
                .with_n_best(search.count("n_best", 1..=MOST_BEAMS)?)
                .with_mass(search.number("mass")?)
                .with_length_penalty(search.number("length_penalty")?.unwrap_or(0.0))
                .with_coverage_penalty(search.number("coverage_penalty")?.unwrap_or(0.0))
                .with_min_len(
                    search
                        .count("min_length", 0..=max_len.saturating_sub(1))?
                        .unwrap_or(0),
                )
                .with_max_len(search.count("max_length", 1..=max_len)?)
                .with_prefix(search.text("prefix")?.unwrap_or_default()),
            unknown: unknown(&mut fields)?,
        })
    }
}

/// The body of `POST /v1/explain`: `source`, `prefix`, the target tokens with which the outputs begin, `<eos>` last if
/// they are the output, `n_best` and `beam`.
pub(super) struct ExplainRequest {
    pub(super) source: String,
    pub(super) config: ExplainConfig,
    pub(super) unknown: UnknownTokens,
}

/// The most outputs of an explanation: each is decoded once for every source token that is dropped.
const MOST_OUTPUTS: usize = 10;

/// The most weights, changes and alternatives of an explanation: some 5 MB, which a browser draws in a moment.
const MOST_NUMBERS: usize = 1_000_000;

impl Request for ExplainRequest {
    fn read(body: &[u8], _: usize) -> Result<Self, Fault> {
        let known = ["source", "prefix", "n_best", "beam", "unknown"];
        let mut fields = Fields::of_body(body, &known)?;
        let defaults = ExplainConfig::default();
        let n_best = fields.count("n_best", 1..=MOST_OUTPUTS)?;
        let n_best = n_best.or(defaults.search.n_best);
        let beam = fields.count("beam", 1..=MOST_BEAMS)?;
        Ok(Self {
            source: required(fields.text("source")?, "source")?,
            config: ExplainConfig {
                prefix: fields.texts("prefix")?.unwrap_or_default(),
                most_numbers: Some(MOST_NUMBERS),
                search: defaults.search.with_n_best(n_best).with_beam(beam),
                ..defaults
            },
            unknown: unknown(&mut fields)?,
        })
    }
}

/// How unknown tokens are read: by the names of the program.
fn unknown(fields: &mut Fields) -> Result<UnknownTokens, Fault> {
    let parse = |name: &str| serde_json::from_value(name.into()).ok();
    let unknown = fields.choice("unknown", &["error", "skip", "unk"], parse)?;
    Ok(unknown.unwrap_or_default())
}
