//! The names of months and weekdays, in the forms that dates use.

/// The words of one language for a date, in its usual letter case.
pub(super) struct Language {
    /// January to December; in the genitive if dates use it.
    pub(super) months: [&'static str; 12],
    pub(super) short_months: [&'static str; 12],
    /// Monday to Sunday.
    pub(super) weekdays: [&'static str; 7],
    pub(super) ordinal: Ordinal,
}

/// How the number of a day is written in words.
pub(super) enum Ordinal {
    /// 1st, 2nd, 3rd, 4th.
    English,
    /// Only the first day of a month is ordinal, with this suffix: `1er mai 1994`.
    FirstOnly(&'static str),
}

impl Ordinal {
    pub(super) fn suffix(&self, day: u32) -> &'static str {
        match (self, day) {
            (Self::English, 1 | 21 | 31) => "st",
            (Self::English, 2 | 22) => "nd",
            (Self::English, 3 | 23) => "rd",
            (Self::English, _) => "th",
            (Self::FirstOnly(suffix), 1) => suffix,
            (Self::FirstOnly(_), _) => "",
        }
    }
}

pub(super) static ENGLISH: Language = Language {
    months: [
        "January", "February", "March", "April", "May", "June", "July", "August", "September",
        "October", "November", "December",
    ],
    short_months: [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ],
    weekdays: ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"],
    ordinal: Ordinal::English,
};

pub(super) static GERMAN: Language = Language {
    months: [
        "Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September",
        "Oktober", "November", "Dezember",
    ],
    short_months: [
        "Jan", "Feb", "Mär", "Apr", "Mai", "Jun", "Jul", "Aug", "Sep", "Okt", "Nov", "Dez",
    ],
    weekdays: ["Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"],
    ordinal: Ordinal::FirstOnly(""),
};

pub(super) static FRENCH: Language = Language {
    months: [
        "janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre",
        "octobre", "novembre", "décembre",
    ],
    short_months: [
        "janv.", "févr.", "mars", "avr.", "mai", "juin", "juil.", "août", "sept.", "oct.", "nov.",
        "déc.",
    ],
    weekdays: ["lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"],
    ordinal: Ordinal::FirstOnly("er"),
};

pub(super) static SPANISH: Language = Language {
    months: [
        "enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre",
        "octubre", "noviembre", "diciembre",
    ],
    short_months: [
        "ene", "feb", "mar", "abr", "may", "jun", "jul", "ago", "sep", "oct", "nov", "dic",
    ],
    weekdays: ["lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"],
    ordinal: Ordinal::FirstOnly(""),
};

pub(super) static ITALIAN: Language = Language {
    months: [
        "gennaio", "febbraio", "marzo", "aprile", "maggio", "giugno", "luglio", "agosto",
        "settembre", "ottobre", "novembre", "dicembre",
    ],
    short_months: [
        "gen", "feb", "mar", "apr", "mag", "giu", "lug", "ago", "set", "ott", "nov", "dic",
    ],
    weekdays: ["lunedì", "martedì", "mercoledì", "giovedì", "venerdì", "sabato", "domenica"],
    ordinal: Ordinal::FirstOnly("º"),
};

pub(super) static PORTUGUESE: Language = Language {
    months: [
        "janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho", "agosto", "setembro",
        "outubro", "novembro", "dezembro",
    ],
    short_months: [
        "jan", "fev", "mar", "abr", "mai", "jun", "jul", "ago", "set", "out", "nov", "dez",
    ],
    weekdays: [
        "segunda-feira", "terça-feira", "quarta-feira", "quinta-feira", "sexta-feira", "sábado",
        "domingo",
    ],
    ordinal: Ordinal::FirstOnly("º"),
};

pub(super) static DUTCH: Language = Language {
    months: [
        "januari", "februari", "maart", "april", "mei", "juni", "juli", "augustus", "september",
        "oktober", "november", "december",
    ],
    short_months: [
        "jan", "feb", "mrt", "apr", "mei", "jun", "jul", "aug", "sep", "okt", "nov", "dec",
    ],
    weekdays: ["maandag", "dinsdag", "woensdag", "donderdag", "vrijdag", "zaterdag", "zondag"],
    ordinal: Ordinal::FirstOnly(""),
};

pub(super) static POLISH: Language = Language {
    months: [
        "stycznia", "lutego", "marca", "kwietnia", "maja", "czerwca", "lipca", "sierpnia",
        "września", "października", "listopada", "grudnia",
    ],
    short_months: [
        "sty", "lut", "mar", "kwi", "maj", "cze", "lip", "sie", "wrz", "paź", "lis", "gru",
    ],
    weekdays: ["poniedziałek", "wtorek", "środa", "czwartek", "piątek", "sobota", "niedziela"],
    ordinal: Ordinal::FirstOnly(""),
};

pub(super) static SWEDISH: Language = Language {
    months: [
        "januari", "februari", "mars", "april", "maj", "juni", "juli", "augusti", "september",
        "oktober", "november", "december",
    ],
    short_months: [
        "jan", "feb", "mar", "apr", "maj", "jun", "jul", "aug", "sep", "okt", "nov", "dec",
    ],
    weekdays: ["måndag", "tisdag", "onsdag", "torsdag", "fredag", "lördag", "söndag"],
    ordinal: Ordinal::FirstOnly(""),
};

pub(super) static DANISH: Language = Language {
    months: [
        "januar", "februar", "marts", "april", "maj", "juni", "juli", "august", "september",
        "oktober", "november", "december",
    ],
    short_months: [
        "jan", "feb", "mar", "apr", "maj", "jun", "jul", "aug", "sep", "okt", "nov", "dec",
    ],
    weekdays: ["mandag", "tirsdag", "onsdag", "torsdag", "fredag", "lørdag", "søndag"],
    ordinal: Ordinal::FirstOnly(""),
};
