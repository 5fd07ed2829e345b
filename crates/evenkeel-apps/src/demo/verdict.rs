//! The verdict on an architecture, in words.

use super::results::{Architecture, Kernel};
use crate::quantity::percent;

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

/// Returns the verdict on an architecture in two or three words.
#[must_use]
pub fn words(architecture: &Architecture) -> &'static str {
    match architecture.unknown() {
        Some(_) => "cannot tell",
        None => Course::of(architecture.retention).words(),
    }
}

/// Returns the course of the kernel's own socket, in a few words.
#[must_use]
pub fn of_kernel(kernel: &Kernel) -> String {
    kernel.unknown().map_or_else(|| Course::of(kernel.retention).words().to_owned(), cannot_tell)
}

fn cannot_tell(core_share: f64) -> String {
    format!("cannot tell: at one load the host had only {} % of its core", percent(core_share))
}

/// Returns one line on an architecture: its course, the unflooded socket, and the neighbour.
#[must_use]
pub fn line(architecture: &Architecture) -> String {
    if let Some(share) = architecture.unknown() {
        return cannot_tell(share);
    }
    let course = match Course::of(architecture.retention) {
        Course::Livelocks => format!("livelocks: {} % of its peak is left", percent(architecture.retention)),
        course @ (Course::Falls | Course::Sags) => {
            format!("{}: {} % of its peak is left", course.words(), percent(architecture.retention))
        }
        Course::Keeps => Course::Keeps.words().to_owned(),
    };
    format!("{course}; {}; {}", victim(architecture), neighbour(architecture))
}

/// Returns a few words on the loss of the unflooded socket.
fn victim(architecture: &Architecture) -> String {
    match architecture.worst_victim_loss() {
        0.0 => "other socket loses nothing".to_owned(),
        loss => format!("other socket loses up to {} %", percent(loss)),
    }
}

/// Returns a few words on the share of the core that the compute-bound neighbour got.
fn neighbour(architecture: &Architecture) -> String {
    match architecture.neighbour_cpu {
        share if share < 0.01 => "neighbour starves".to_owned(),
        share => format!("neighbour gets {:.0} %", share * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::fixture;
    use crate::demo::results::KernelPoint;

    #[test]
    fn the_course_follows_retention() {
        let courses = [0.0, 0.199, 0.2, 0.9, 0.97, 1.0].map(Course::of);
        use Course::{Falls, Keeps, Livelocks, Sags};
        assert_eq!(courses, [Livelocks, Livelocks, Falls, Sags, Keeps, Keeps]);
    }

    #[test]
    fn a_loss_at_any_load_is_told() {
        let mut points = vec![fixture::point(1.0), fixture::point(2.0)];
        let quiet = Architecture::from_points("ni-lrp", 1, points.clone());
        assert_eq!(line(&quiet), "keeps its peak; other socket loses nothing; neighbour gets 50 %");
        points[0].victim_loss = 0.25;
        let hurt = line(&Architecture::from_points("ni-lrp", 1, points));
        assert!(hurt.contains("loses up to 25.0 %"), "{hurt}");
    }

    /// A socket that kept its peak is judged only if it had enough of its core.
    #[test]
    fn the_kernel_is_judged_by_the_same_guard() {
        let told = |core_share| {
            let point = KernelPoint { offered_pps: 1.0, delivered_pps: 1.0, core_share };
            of_kernel(&Kernel::from_points("6.0.0", vec![point]))
        };
        assert_eq!(told(0.91), "keeps its peak");
        assert_eq!(told(0.89), "cannot tell: at one load the host had only 89.0 % of its core");
    }

    #[test]
    fn of_a_core_that_was_taken_away_nothing_is_told() {
        let mut points = vec![fixture::point(1.0), fixture::point(2.0)];
        points[1].core_share = 0.91;
        assert!(line(&Architecture::from_points("polled", 1, points.clone())).starts_with("keeps"));
        points[1].core_share = 0.89;
        let told = line(&Architecture::from_points("polled", 1, points.clone()));
        assert_eq!(told, "cannot tell: at one load the host had only 89.0 % of its core");
        assert_eq!(words(&Architecture::from_points("polled", 1, points)), "cannot tell");
    }
}
