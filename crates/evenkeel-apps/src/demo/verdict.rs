//! The verdict on an architecture, in words.

use super::course::Course;
use super::guard::Judgement;
use super::results::{Architecture, OnVeth};
use crate::quantity::percent;

/// Returns the course of a curve in a few words, or the reason why the measurements do not tell.
#[must_use]
pub fn course(judgement: Judgement, retention: f64) -> String {
    match judgement {
        Judgement::Doubtful(doubt) => format!("cannot tell: {doubt}"),
        Judgement::Shown(Course::Keeps) => Course::Keeps.words().to_owned(),
        Judgement::Shown(course) => {
            format!("{}: {} % of its peak is left", course.words(), percent(retention))
        }
    }
}

/// Returns one line on an architecture: its course, the unflooded socket, and the neighbour.
#[must_use]
pub fn line(architecture: &Architecture) -> String {
    let judgement = architecture.judgement();
    let course = course(judgement, architecture.retention);
    match judgement {
        Judgement::Doubtful(_) => course,
        Judgement::Shown(_) => format!("{course}; {}; {}", victim(architecture), neighbour(architecture)),
    }
}

/// Returns the course of a socket on the veth pair in a few words.
#[must_use]
pub fn on_veth(socket: &OnVeth) -> String {
    course(socket.judgement(), socket.retention)
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
    use crate::demo::results::{Point, VethPoint};

    /// Returns two points, the second of which is an overload.
    fn flooded() -> Vec<Point> {
        let overload = Point { delivered_pps: 2.0, ..fixture::point(8.0) };
        vec![fixture::point(2.0), overload]
    }

    #[test]
    fn a_loss_at_any_load_is_told() {
        let mut points = flooded();
        let quiet = Architecture::from_points("ni-lrp", 1, points.clone());
        assert_eq!(line(&quiet), "keeps its peak; other socket loses nothing; neighbour gets 50 %");
        points[0].victim_loss = 0.25;
        let hurt = line(&Architecture::from_points("ni-lrp", 1, points));
        assert!(hurt.contains("loses up to 25.0 %"), "{hurt}");
    }

    /// Equal curves of ours and of the kernel get equal words.
    #[test]
    fn the_kernel_is_judged_by_the_same_guard_in_the_same_words() {
        for (core_share, delivered_pps) in [(1.0, 2.0), (0.91, 1.9), (1.0, 0.5), (0.89, 2.0), (1.0, 0.0)] {
            let points = flooded().into_iter().zip([2.0, delivered_pps]);
            let points: Vec<Point> =
                points.map(|(point, delivered_pps)| Point { delivered_pps, core_share, ..point }).collect();
            let of_kernel_point = |p: &Point| VethPoint {
                offered_pps: p.offered_pps,
                delivered_pps: p.delivered_pps,
                core_share: p.core_share,
            };
            let kernel = OnVeth::from_points("6.0.0", points.iter().map(of_kernel_point).collect());
            let ours = Architecture::from_points("eager", 1, points);
            assert_eq!(kernel.judgement(), ours.judgement());
            let course = course(ours.judgement(), ours.retention);
            assert!(line(&ours).starts_with(&course) && on_veth(&kernel) == course, "{course}");
        }
    }

    #[test]
    fn of_a_core_that_was_taken_away_nothing_is_told() {
        let mut points = flooded();
        points[1].core_share = 0.91;
        assert!(line(&Architecture::from_points("polled", 1, points.clone())).starts_with("keeps"));
        points[1].core_share = 0.89;
        let told = line(&Architecture::from_points("polled", 1, points.clone()));
        assert_eq!(told, "cannot tell: at one load the host had only 89.0 % of its core");
        assert_eq!(Architecture::from_points("polled", 1, points).judgement().words(), "cannot tell");
    }
}
