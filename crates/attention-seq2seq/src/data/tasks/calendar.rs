//! Dates of the Gregorian calendar: weekdays and lengths of months.

/// A day of the Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Date {
    pub(super) year: u32,
    /// 1 to 12.
    pub(super) month: u32,
    /// 1 to the length of the month.
    pub(super) day: u32,
}

impl Date {
    /// The days since Monday, 0 to 6. Sakamoto's method: years begin in March, so that the leap day is the last.
    pub(super) fn weekday(self) -> u32 {
        /// The weekday of the first day of each month relative to January's, minus one after the leap day.
        const SHIFTS: [u32; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
        let year = self.year - u32::from(self.month < 3);
        let since_sunday =
            year + year / 4 - year / 100 + year / 400 + SHIFTS[self.month as usize - 1] + self.day;
        (since_sunday + 6) % 7
    }

    /// ISO 8601: `YYYY-MM-DD`.
    pub(super) fn iso(self) -> String {
        let Self { year, month, day } = self;
        format!("{year:04}-{month:02}-{day:02}")
    }
}

/// The length of a month, 1 to 12.
pub(super) fn days_in_month(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weekdays_follow_each_other_through_two_centuries() {
        let mut days = 0;
        for year in 1900..=2099 {
            for month in 1..=12 {
                for day in 1..=days_in_month(year, month) {
                    let weekday = Date { year, month, day }.weekday();
                    assert_eq!(weekday, days % 7, "{year}-{month}-{day}");
                    days += 1;
                }
            }
        }
        assert_eq!(days, 73_049); // 200 years of 365 days, 49 leap days: 1900 has none
    }
}
