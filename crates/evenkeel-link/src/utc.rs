//! Dates and times of day, calculated from seconds since 1970.

/// A date and a time of day, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utc {
    /// The year of our era.
    pub year: u64,
    /// From 1 to 12.
    pub month: u8,
    /// From 1 to 31.
    pub day: u8,
    /// From 0, which is Sunday, to 6.
    pub weekday: u8,
    /// From 0 to 23.
    pub hour: u8,
    /// From 0 to 59.
    pub minute: u8,
    /// From 0 to 59: POSIX has no leap seconds.
    pub second: u8,
}

impl Utc {
    /// Returns the date this many seconds after the beginning of 1970.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "all but the year are small")]
    pub const fn of(seconds: u64) -> Self {
        let (day, second) = (seconds / 86_400, seconds % 86_400);
        // Days count from the first of March of the year 0, so that the leap day ends a year; 400 years have
        // 146 097 days.
        let days = day + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Self {
            year: era * 400 + year_of_era + (month <= 2) as u64,
            month: month as u8,
            day: (of_year - (153 * from_march + 2) / 5 + 1) as u8,
            // 1970 began with a Thursday.
            weekday: ((day + 4) % 7) as u8,
            hour: (second / 3_600) as u8,
            minute: (second / 60 % 60) as u8,
            second: (second % 60) as u8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        // These values come from `date -u -d @N +"%Y %m %d %w %H %M %S"`.
        for (seconds, [year, rest @ ..]) in [
            (0, [1970, 1, 1, 4, 0, 0, 0]),
            (784_111_777, [1994, 11, 6, 0, 8, 49, 37]),
            (951_782_399, [2000, 2, 28, 1, 23, 59, 59]),
            (951_782_400, [2000, 2, 29, 2, 0, 0, 0]),
            (951_868_800, [2000, 3, 1, 3, 0, 0, 0]),
            (1_798_761_599, [2026, 12, 31, 4, 23, 59, 59]),
            (4_107_542_400, [2100, 3, 1, 1, 0, 0, 0]),
        ] {
            let Utc { year: y, month, day, weekday, hour, minute, second } = Utc::of(seconds);
            assert_eq!((y, [month, day, weekday, hour, minute, second].map(u64::from)), (year, rest));
        }
    }
}
