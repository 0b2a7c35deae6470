//! Dates as people write them, to ISO 8601.

use std::ops::RangeInclusive;

use rand::{Rng, RngExt};

use super::calendar::{Date, days_in_month};
use super::languages::{
    DANISH, DUTCH, ENGLISH, FRENCH, GERMAN, ITALIAN, Language, POLISH, PORTUGUESE, SPANISH, SWEDISH,
};
use crate::data::pairs::Pair;
use crate::text::tokens::Tokenization::Chars;

const YEARS: RangeInclusive<u32> = 1900..=2099;

/// The range of two-digit years after an apostrophe: '50 to '99 are 19xx, '00 to '49 are 20xx.
const SHORT_YEARS: RangeInclusive<u32> = 1950..=2049;

/// A written form of dates, in one language or in digits.
///
/// The fields are as in `strftime`: `%d` day, `%m` month, `%-d` and `%-m` without leading zero, `%b` short month, `%B`
/// month, `%A` weekday, `%Y` year, `%y` its last two digits; and `%o` for the day as an ordinal.
///
/// No text fits two dates. A two-digit year is the last field, after an apostrophe. In digits, the year is first or
/// last: if first, the order is year, month, day; if last, it is day, month, year with dots and dashes, and month, day,
/// year with slashes, as in the United States.
struct Format {
    language: &'static Language,
    pattern: &'static str,
}

const fn format(language: &'static Language, pattern: &'static str) -> Format {
    Format { language, pattern }
}

static FORMATS: &[Format] = &[
    // in digits, for any language
    format(&ENGLISH, "%Y-%m-%d"),
    format(&ENGLISH, "%Y/%m/%d"),
    format(&ENGLISH, "%Y.%m.%d"),
    format(&ENGLISH, "%Y-%-m-%-d"),
    format(&ENGLISH, "%Y/%-m/%-d"),
    format(&ENGLISH, "%Y%m%d"),
    format(&ENGLISH, "%Y %m %d"),
    format(&ENGLISH, "%d.%m.%Y"),
    format(&ENGLISH, "%-d.%-m.%Y"),
    format(&ENGLISH, "%-d. %-m. %Y"),
    format(&ENGLISH, "%d-%m-%Y"),
    format(&ENGLISH, "%-d-%-m-%Y"),
    format(&ENGLISH, "%m/%d/%Y"),
    format(&ENGLISH, "%-m/%-d/%Y"),
    format(&ENGLISH, "%d.%m.'%y"),
    format(&ENGLISH, "%-m/%-d/'%y"),
    // English
    format(&ENGLISH, "%-d %b %Y"),
    format(&ENGLISH, "%d %b %Y"),
    format(&ENGLISH, "%-d %B %Y"),
    format(&ENGLISH, "%b %-d, %Y"),
    format(&ENGLISH, "%b. %-d, %Y"),
    format(&ENGLISH, "%B %-d, %Y"),
    format(&ENGLISH, "%B %-d %Y"),
    format(&ENGLISH, "%B %o, %Y"),
    format(&ENGLISH, "%o %B %Y"),
    format(&ENGLISH, "%o of %B %Y"),
    format(&ENGLISH, "%o of %B, %Y"),
    format(&ENGLISH, "the %o of %B %Y"),
    format(&ENGLISH, "%A, %B %-d, %Y"),
    format(&ENGLISH, "%A, %B %o, %Y"),
    format(&ENGLISH, "%A %-d %B %Y"),
    format(&ENGLISH, "%A, %-d %b %Y"),
    format(&ENGLISH, "%-d %b '%y"),
    format(&ENGLISH, "%b %-d, '%y"),
    format(&ENGLISH, "%B %-d, '%y"),
    format(&ENGLISH, "%d-%b-%Y"),
    format(&ENGLISH, "%Y %b %-d"),
    format(&ENGLISH, "%Y, %B %-d"),
    // German
    format(&GERMAN, "%-d. %B %Y"),
    format(&GERMAN, "%-d. %b %Y"),
    format(&GERMAN, "%-d. %B '%y"),
    format(&GERMAN, "den %-d. %B %Y"),
    format(&GERMAN, "%A, %-d. %B %Y"),
    format(&GERMAN, "%A, den %d.%m.%Y"),
    // French
    format(&FRENCH, "%o %B %Y"),
    format(&FRENCH, "le %o %B %Y"),
    format(&FRENCH, "%-d %b %Y"),
    format(&FRENCH, "%o %B '%y"),
    format(&FRENCH, "%A %o %B %Y"),
    // Spanish
    format(&SPANISH, "%-d de %B de %Y"),
    format(&SPANISH, "el %-d de %B de %Y"),
    format(&SPANISH, "%-d %b %Y"),
    format(&SPANISH, "%-d de %B del %Y"),
    format(&SPANISH, "%A, %-d %b %Y"),
    // Italian
    format(&ITALIAN, "%-d %B %Y"),
    format(&ITALIAN, "%o %B %Y"),
    format(&ITALIAN, "%-d %b %Y"),
    format(&ITALIAN, "%-d %B '%y"),
    format(&ITALIAN, "%A %-d %B %Y"),
    // Portuguese
    format(&PORTUGUESE, "%-d de %B de %Y"),
    format(&PORTUGUESE, "%o de %B de %Y"),
    format(&PORTUGUESE, "%-d %b %Y"),
    format(&PORTUGUESE, "%-d de %b de %Y"),
    format(&PORTUGUESE, "%A, %-d %b %Y"),
    // Dutch
    format(&DUTCH, "%-d %B %Y"),
    format(&DUTCH, "%-d %b %Y"),
    format(&DUTCH, "%-d %b '%y"),
    format(&DUTCH, "%A %-d %B %Y"),
    // Polish
    format(&POLISH, "%-d %B %Y"),
    format(&POLISH, "%-d %B %Y r."),
    format(&POLISH, "%-d %b %Y"),
    format(&POLISH, "%A, %-d %b %Y"),
    // Swedish
    format(&SWEDISH, "%-d %B %Y"),
    format(&SWEDISH, "den %-d %B %Y"),
    format(&SWEDISH, "%-d %b %Y"),
    format(&SWEDISH, "%A %-d %B %Y"),
    // Danish
    format(&DANISH, "%-d. %B %Y"),
    format(&DANISH, "den %-d. %B %Y"),
    format(&DANISH, "%-d. %b %Y"),
    format(&DANISH, "%A den %-d. %B %Y"),
];

impl Format {
    fn years(&self) -> RangeInclusive<u32> {
        let is_short = self.pattern.contains("%y");
        if is_short { SHORT_YEARS } else { YEARS }
    }

    fn write(&self, date: Date) -> String {
        let Self { language, pattern } = self;
        let Date { year, month, day } = date;
        let month_index = month as usize - 1;
        let mut fields = pattern.split('%');
        let mut text = fields.next().unwrap_or_default().to_owned();
        for field in fields {
            let (field, literal) = field.split_at(if field.starts_with('-') { 2 } else { 1 });
            text += &match field {
                "d" => format!("{day:02}"),
                "-d" => day.to_string(),
                "o" => format!("{day}{}", language.ordinal.suffix(day)),
                "m" => format!("{month:02}"),
                "-m" => month.to_string(),
                "b" => language.short_months[month_index].to_owned(),
                "B" => language.months[month_index].to_owned(),
                "A" => language.weekdays[date.weekday() as usize].to_owned(),
                "Y" => year.to_string(),
                "y" => format!("{:02}", year % 100),
                _ => unreachable!("the tests write every format, and none has a field %{field}"),
            };
            text += literal;
        }
        text
    }
}

/// A date of [`YEARS`] in one of the [`FORMATS`]; one in eight is in lower case, one in eight in upper case.
pub(super) fn pair(rng: &mut impl Rng) -> Pair {
    let format = &FORMATS[rng.random_range(0..FORMATS.len())];
    let (year, month) = (rng.random_range(format.years()), rng.random_range(1..=12));
    let day = rng.random_range(1..=days_in_month(year, month));
    let date = Date { year, month, day };
    let written = format.write(date);
    let source = match rng.random_range(0..8) {
        0 => written.to_lowercase(),
        1 => written.to_uppercase(),
        _ => written,
    };
    Pair {
        source: Chars.split(&source),
        target: Chars.split(&date.iso()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;
    use crate::data::tasks::Task;
    use crate::text::vocab::Vocab;

    /// Every name of a month in any language, small and without the dot of an abbreviation.
    fn month_names() -> HashMap<String, u32> {
        let mut names = HashMap::new();
        for language in FORMATS.iter().map(|format| format.language) {
            for names_of_one in [language.months, language.short_months] {
                for (month, name) in (1..).zip(names_of_one) {
                    let name = name.trim_end_matches('.').to_lowercase();
                    let before = names.insert(name.clone(), month);
                    assert!(before.is_none_or(|it| it == month), "{name} is two months");
                }
            }
        }
        names
    }

    /// Reads a date by the rules that [`Format`] documents, without its language and pattern.
    fn parse(source: &str, months: &HashMap<String, u32>) -> Date {
        let lower = source.to_lowercase();
        let mut words = lower.split(|c: char| !c.is_alphabetic());
        let word_month = words.find_map(|word| months.get(word)).copied();
        let numbers = lower.split(|c: char| !c.is_ascii_digit());
        let numbers: Vec<&str> = numbers.filter(|digits| !digits.is_empty()).collect();
        let number = |digits: &str| digits.parse::<u32>().unwrap();
        let year = |digits: &str| match (digits.len(), number(digits)) {
            (4, year) => year,
            (2, year) if lower.ends_with(&format!("'{digits}")) => {
                year + if year < 50 { 2000 } else { 1900 }
            }
            _ => panic!("{source} has no year at {digits}"),
        };
        let (year, month, day) = match (word_month, &numbers[..]) {
            (Some(month), [y, d]) if y.len() == 4 => (number(y), month, number(d)),
            (Some(month), [d, y]) => (year(y), month, number(d)),
            (None, [it]) => (number(&it[..4]), number(&it[4..6]), number(&it[6..])),
            (None, [y, m, d]) if y.len() == 4 => (number(y), number(m), number(d)),
            (None, [m, d, y]) if source.contains('/') => (year(y), number(m), number(d)),
            (None, [d, m, y]) => (year(y), number(m), number(d)),
            _ => panic!("{source} has {numbers:?}"),
        };
        Date { year, month, day }
    }

    fn text(pair: &Pair) -> (String, String) {
        (Chars.join(&pair.source), Chars.join(&pair.target))
    }

    #[test]
    fn every_format_reads_back_as_its_date() {
        let months = month_names();
        for format in FORMATS {
            for year in 1950..2050 {
                let month = year % 12 + 1;
                let day = year % days_in_month(year, month) + 1;
                let date = Date { year, month, day };
                let written = format.write(date);
                for source in [written.to_lowercase(), written.to_uppercase(), written] {
                    assert_eq!(parse(&source, &months), date, "{source}");
                }
            }
        }
    }

    #[test]
    fn no_source_has_two_targets_and_every_target_is_a_date() {
        let months = month_names();
        let mut seen = HashMap::new();
        for pair in Task::Dates.generate(20_000, 11) {
            let (source, target) = text(&pair);
            let date = parse(&source, &months);
            assert_eq!(date.iso(), target, "{source}");
            let Date { year, month, day } = date;
            let is_date = YEARS.contains(&year) && (1..=12).contains(&month);
            assert!(is_date, "{target}");
            assert!((1..=days_in_month(year, month)).contains(&day), "{target}");
            assert_eq!(pair.target.len(), 10);
            let before = seen.insert(source.clone(), target.clone());
            assert!(before.is_none_or(|before| before == target), "{source}");
        }
        assert!(seen.len() > 19_000);
    }

    #[test]
    fn dates_read_as_they_are_written_by_hand() {
        let (year, month, day) = (1994, 11, 5);
        let date = Date { year, month, day };
        assert_eq!(Date { month: 3, ..date }.iso(), "1994-03-05");
        let first = Date { day: 1, ..date };
        let later = Date { year: 2005, ..date };
        let (long, ordinal) = ("Saturday, November 5th, 1994", "the 1st of November 1994");
        for (language, pattern, date, written) in [
            (&ENGLISH, "%A, %B %o, %Y", date, long),
            (&ENGLISH, "the %o of %B %Y", first, ordinal),
            (&ENGLISH, "%-d %b '%y", date, "5 Nov '94"),
            (&ENGLISH, "%d.%m.'%y", later, "05.11.'05"),
            (&GERMAN, "%A, %-d. %B %Y", date, "Samstag, 5. November 1994"),
            (&FRENCH, "%A %o %B %Y", first, "mardi 1er novembre 1994"),
            (&FRENCH, "%o %B %Y", date, "5 novembre 1994"),
            (&SPANISH, "%-d de %B de %Y", date, "5 de noviembre de 1994"),
            (&POLISH, "%-d %B %Y", date, "5 listopada 1994"),
        ] {
            assert_eq!(format(language, pattern).write(date), written);
        }
        let days = [1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 30, 31];
        let suffixes = days.map(|day| ENGLISH.ordinal.suffix(day)).join(" ");
        assert_eq!(suffixes, "st nd rd th th th th st nd rd th st");
    }

    #[test]
    fn formats_differ_and_stay_short() {
        let rows = FORMATS.iter().map(|it| (it.language.months, it.pattern));
        assert_eq!(rows.collect::<HashSet<_>>().len(), FORMATS.len());
        let pairs = Task::Dates.generate(50_000, 1);
        let lengths = pairs.iter().map(|pair| pair.source.len());
        assert!(lengths.clone().min() >= Some(7) && lengths.max() <= Some(32));
        let source = Vocab::build(pairs.iter().map(|pair| &pair.source[..]));
        let target = Vocab::build(pairs.iter().map(|pair| &pair.target[..]));
        assert!(source.len() < 110, "{} source tokens", source.len());
        assert_eq!(target.len(), Vocab::SPECIAL_TOKENS + 11); // ten digits and the dash
    }
}
