//! The date in the format of HTTP (RFC 9110, 5.6.7).

use core::fmt;

use evenkeel::raw::time::Utc;

/// A date: `Sun, 06 Nov 1994 08:49:37 GMT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpDate {
    /// Seconds since 1970.
    pub seconds: u64,
}

const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl fmt::Display for HttpDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Utc { year, month, day, weekday, hour, minute, second } = Utc::of(self.seconds);
        let weekday = DAYS.get(usize::from(weekday)).unwrap_or(&"");
        let month = MONTHS.get(usize::from(month).wrapping_sub(1)).unwrap_or(&"");
        write!(f, "{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_written_as_the_standard_has_it() {
        assert_eq!(HttpDate { seconds: 784_111_777 }.to_string(), "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
