//! Bar charts for a page. The parts of a bar add up to a whole.

use core::fmt::Write as _;

use super::svg::escape;
use crate::quantity::percent;

/// Horizontal bars below each other, each stretched to the full width, with a legend above. They are HTML,
/// so names and legend break into lines on a narrow screen.
#[derive(Debug)]
pub struct BarChart {
    /// A description of the chart for readers who cannot see it.
    pub description: String,
    /// The parts, in order: name and fill `0..8`.
    pub legend: Vec<(String, usize)>,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// A bar of a [`BarChart`], made of segments.
#[derive(Debug)]
pub struct Bar {
    /// The name of the bar, shown above it.
    pub name: String,
    /// The parts of the bar, left to right.
    pub segments: Vec<Segment>,
}

/// A part of a bar.
#[derive(Debug)]
pub struct Segment {
    /// The part, by its place in the legend.
    pub part: usize,
    /// The size of the part, in any unit; the length of the bar is the sum of its segments.
    pub size: f64,
}

/// The least share of a bar that has room for its number on the narrowest screen.
const HAS_ROOM: f64 = 0.12;

impl BarChart {
    /// Renders the chart as HTML.
    #[must_use]
    pub fn render(&self) -> String {
        let mut html =
            format!("<div class=\"bars\" role=\"img\" aria-label=\"{}\">\n", escape(&self.description));
        html.push_str("<ul class=\"legend\">\n");
        for (name, fill) in &self.legend {
            let _ = writeln!(html, "<li><i class=\"f{fill}\"></i>{}</li>", escape(name));
        }
        html.push_str("</ul>\n");
        for bar in &self.bars {
            self.draw(&mut html, bar);
        }
        html.push_str("</div>\n");
        html
    }

    fn draw(&self, html: &mut String, bar: &Bar) {
        let whole: f64 = bar.segments.iter().map(|s| s.size).sum();
        let name = escape(&bar.name);
        let _ = writeln!(html, "<div class=\"bar\"><span>{name}</span><div class=\"whole\">");
        for segment in &bar.segments {
            let Some((part, fill)) = self.legend.get(segment.part) else { continue };
            let share = if whole > 0.0 { segment.size / whole } else { 0.0 };
            if share <= 0.0 {
                continue;
            }
            let inside = if share >= HAS_ROOM { format!("{:.0} %", share * 100.0) } else { String::new() };
            let _ = writeln!(
                html,
                "<b class=\"f{fill}\" style=\"width:{:.2}%\" title=\"{name}: {}, {} %\">{inside}</b>",
                share * 100.0,
                escape(part),
                percent(share)
            );
        }
        html.push_str("</div></div>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(sizes: &[f64]) -> String {
        let segments = sizes.iter().enumerate().map(|(part, &size)| Segment { part, size }).collect();
        let legend = (0..3).map(|i| (format!("part {i}"), i)).collect();
        let bars = vec![Bar { name: "a & b".into(), segments }];
        BarChart { description: "d".into(), legend, bars }.render()
    }

    #[test]
    fn parts_fill_the_bar_in_proportion() {
        let html = chart(&[1.0, 3.0, 0.0]);
        let widths: Vec<&str> =
            html.split("width:").skip(1).filter_map(|rest| rest.split('%').next()).collect();
        assert_eq!(widths, ["25.00", "75.00"], "a part of nothing is not drawn");
        assert!(html.contains("a &amp; b: part 1, 75.0 %") && html.contains(">75 %</b>"), "{html}");
    }

    #[test]
    fn a_number_without_room_is_only_in_the_hint() {
        let html = chart(&[1.0, 19.0, 0.0]);
        assert!(!html.contains(">5 %</b>") && html.contains("part 0, 5.0 %"), "{html}");
    }

    #[test]
    fn an_empty_bar_is_only_its_name() {
        assert!(!chart(&[0.0, 0.0]).contains("<b "));
        assert!(chart(&[]).contains("<span>a &amp; b</span>"));
    }
}
