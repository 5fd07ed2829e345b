//! The colours and markers of curves.

use evenkeel::raw::receive::Architecture;

use super::svg::SERIES;

/// Returns the number of the style of each curve. A receive architecture has the same one in all pictures.
/// Other curves get those that are left, in their order; when none is left, styles repeat.
#[must_use]
pub fn styles(names: &[String]) -> Vec<usize> {
    let fixed = |name: &String| Architecture::ALL.iter().position(|a| a.name() == name);
    let taken: Vec<usize> = names.iter().filter_map(fixed).collect();
    let free = (0..SERIES).filter(|style| !taken.contains(style));
    let mut free = free.collect::<Vec<_>>().into_iter().cycle();
    names.iter().map(|name| fixed(name).or_else(|| free.next()).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_has_its_own_style_in_every_picture() {
        let styles_of = |names: &[&str]| styles(&names.iter().map(|&name| name.into()).collect::<Vec<_>>());
        let all = styles_of(&["eager", "polled", "early-demux", "soft-lrp", "ni-lrp"]);
        let some = styles_of(&["soft-lrp", "eager", "unmodified"]);
        assert_eq!(some[..2], [all[3], all[0]]);
        assert!(!some[..2].contains(&some[2]));
        assert_eq!(styles_of(&["a", "b", "c"]), [0, 1, 2]);
        let many: Vec<String> = (0..9).map(|n| n.to_string()).collect();
        assert_eq!(styles(&many)[7..], [0, 1]);
    }
}
