//! The course of delivered load beyond the peak.

/// The course of delivered load as offered load goes far beyond the peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// Next to nothing is delivered at the highest load.
    Livelocks,
    /// Much of the peak is lost.
    Falls,
    /// Some of the peak is lost.
    Sags,
    /// The peak is kept.
    Keeps,
}

impl Course {
    /// Returns the course for the share of its peak that is still delivered at the highest load.
    #[must_use]
    pub fn of(retention: f64) -> Self {
        match retention {
            r if r >= 0.97 => Self::Keeps,
            r if r >= 0.90 => Self::Sags,
            r if r >= 0.20 => Self::Falls,
            _ => Self::Livelocks,
        }
    }

    /// Returns the course in two or three words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Livelocks => "livelocks",
            Self::Falls => "falls under load",
            Self::Sags => "sags a little",
            Self::Keeps => "keeps its peak",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_course_follows_retention() {
        let courses = [0.0, 0.199, 0.2, 0.9, 0.97, 1.0].map(Course::of);
        use Course::{Falls, Keeps, Livelocks, Sags};
        assert_eq!(courses, [Livelocks, Livelocks, Falls, Sags, Keeps, Keeps]);
    }
}
