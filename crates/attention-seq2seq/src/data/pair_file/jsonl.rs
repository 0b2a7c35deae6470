//! Lines of JSON objects.

use serde_json::Value;

use super::JsonFields;
use super::line::{LineError, LineResult, Texts, check_characters, check_not_empty};
use crate::text::tokens::trim;

pub(super) fn texts(line: &str, fields: &JsonFields) -> LineResult<Texts<'static>> {
    check_not_empty(line)?;
    let value: Value = serde_json::from_str(trim(line))
        .map_err(|error| LineError::new("a JSON object", error.to_string().replace('\n', " ")))?;
    let Value::Object(object) = &value else {
        return Err(LineError::new("a JSON object", kind(&value)));
    };
    let texts = fields.texts(|_, name| {
        let expected = || format!("a text {name:?} in the object");
        match object.get(name) {
            Some(Value::String(text)) => {
                let text = trim(text);
                if text.is_empty() {
                    return Err(LineError::new(expected(), "an empty text"));
                }
                check_characters(text, &format!("in {name:?}"))?;
                Ok(text)
            }
            other => Err(LineError::new(expected(), other.map_or("none", kind))),
        }
    })?;
    Ok(texts.into_owned())
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use crate::data::pair_file::{Columns, PairFile, PairFormat};
    use crate::data::pairs::Pair;
    use crate::error::Result;
    use crate::tests::rows;
    use crate::text::tokens::Tokenization::{Chars, Spaces};

    fn read(content: &str, fields: &str) -> Result<Vec<Pair>> {
        let file = PairFile::from_bytes("pairs.jsonl", content);
        let format = PairFormat::Jsonl(fields.parse()?);
        let mut options = file.guess_of(format, Columns::default(), Default::default())?;
        options.source_tokens = Chars;
        options.target_tokens = Spaces;
        file.pairs(&options)
    }

    #[test]
    fn fields_are_named_and_others_are_ignored() {
        let content = "\u{feff}{\"source\": \" c\\u00e9 \", \"target\": \"K  AE\", \"note\": [1, {}]}\r\n\
                       {\"target\":\"\\\"B\",\"source\":\"b\"}\n\n";
        let pair = |source: &str, target: &str| Pair {
            source: Chars.split(source),
            target: Spaces.split(target),
        };
        let expected = [pair("cé", "K AE"), pair("b", "\"B")];
        assert_eq!(read(content, "source,target").unwrap(), expected);
        let others = content.replace("source", "word").replace("target", "sound");
        assert_eq!(read(&others, "word,sound").unwrap(), expected);
        assert!(read(content, "target,source").is_ok());
        let tagged = "{\"lemma\": \"go\", \"form\": \"went\", \"msd\": \"V;PST\"}";
        let pairs = read(tagged, "lemma,form,msd").unwrap();
        assert_eq!(pairs[0].source, ["V;", "PST;", "g", "o"]);
    }

    #[test]
    fn faults_are_named_by_their_line() {
        let table = r#"
["a", "b"] | a JSON object, found an array
{"source":  | a JSON object, found EOF while parsing
 | a pair, found an empty line
a\tb | a JSON object, found expected value at line 1 column 1
{"source": "a"} | a text "target" in the object, found none
{"source": 7, "target": "b"} | a text "source" in the object, found a number
{"source": "a", "target": " "} | a text "target" in the object, found an empty text
{"source": "a\u0009b", "target": "c"} | text without control characters, found U+0009 in "source"
"#;
        for [line, message] in rows(table) {
            let good = "{\"source\": \"a\", \"target\": \"b\"}\n";
            let content = format!("{good}{line}\n{good}");
            let error = read(&content, "source,target").unwrap_err().to_string();
            let message = format!("pairs.jsonl:2: expected {message}");
            assert!(error.starts_with(&message), "{error}");
            assert_eq!(error.lines().count(), 1);
        }
    }
}
