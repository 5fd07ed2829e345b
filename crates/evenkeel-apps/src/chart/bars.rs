//! Bar charts. The parts of a bar add up to a whole.

use core::fmt::Write as _;

use super::svg::{escape, open};

/// Horizontal bars below each other, each stretched to the full width, with a legend above.
#[derive(Debug)]
pub struct BarChart {
    /// The title of the chart, in a few words.
    pub title: String,
    /// A description of the chart for readers who cannot see it.
    pub description: String,
    /// Width in units of the picture; the height follows from the bars.
    pub width: f64,
    /// The parts, in order: name and fill `0..8`.
    pub legend: Vec<(String, usize)>,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// A bar of a [`BarChart`], made of segments.
#[derive(Debug)]
pub struct Bar {
    /// The name of the bar, shown at its left.
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

/// The least room for the names of bars.
const LEFT: f64 = 100.0;
/// The gap between a name and its bar.
const GAP: f64 = 12.0;
const BAR: f64 = 30.0;
const PITCH: f64 = 42.0;
const LEGEND_ROW: f64 = 24.0;
/// The rough width of a letter: legends must not overlap, but need not be exact.
const LETTER: f64 = 7.2;

impl BarChart {
    /// Renders the chart as an SVG picture.
    #[must_use]
    pub fn render(&self) -> String {
        let (legend, top) = self.legend_rows();
        #[expect(clippy::cast_precision_loss, reason = "a handful of bars")]
        let height = top + PITCH * self.bars.len() as f64;
        let mut svg = open(self.width, height, &self.title, &self.description);
        svg.push_str(&legend);
        let mut y = top;
        for bar in &self.bars {
            self.draw(&mut svg, bar, y);
            y += PITCH;
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Returns the width reserved for the names of the bars, so that the longest fits.
    fn left(&self) -> f64 {
        let longest = self.bars.iter().map(|bar| bar.name.chars().count()).max().unwrap_or(0);
        #[expect(clippy::cast_precision_loss, reason = "a short text")]
        let longest = longest as f64;
        LETTER.mul_add(longest, 2.0 * GAP).max(LEFT)
    }

    /// Returns the legend, broken into rows, and its height.
    fn legend_rows(&self) -> (String, f64) {
        let left = self.left();
        let (mut svg, mut x, mut y) = (String::new(), left, 4.0);
        for (name, fill) in &self.legend {
            #[expect(clippy::cast_precision_loss, reason = "a short text")]
            let width = 34.0 + LETTER * name.chars().count() as f64;
            if x > left && x + width > self.width {
                (x, y) = (left, y + LEGEND_ROW);
            }
            let _ = writeln!(
                svg,
                "<rect class=\"f{fill}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"14\" height=\"14\" rx=\"3\"/>"
            );
            let _ =
                writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", x + 20.0, y + 11.5, escape(name));
            x += width;
        }
        (svg, y + LEGEND_ROW + 6.0)
    }

    fn draw(&self, svg: &mut String, bar: &Bar, y: f64) {
        let left = self.left();
        let whole: f64 = bar.segments.iter().map(|s| s.size).sum();
        let _ = writeln!(
            svg,
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - GAP,
            y + BAR / 2.0 + 4.5,
            escape(&bar.name)
        );
        let mut x = left;
        for segment in &bar.segments {
            let Some((part, fill)) = self.legend.get(segment.part) else { continue };
            let share = if whole > 0.0 { segment.size / whole } else { 0.0 };
            let width = share * (self.width - left);
            if width < 0.05 {
                continue;
            }
            let percent = crate::quantity::percent(share);
            let _ = writeln!(
                svg,
                "<rect class=\"segment f{fill}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
                 height=\"{BAR}\" rx=\"2\"><title>{}: {}, {percent} %</title></rect>",
                escape(&bar.name),
                escape(part)
            );
            if width > 34.0 {
                let _ = writeln!(
                    svg,
                    "<text class=\"inside on{fill}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.0} \
                     %</text>",
                    x + width / 2.0,
                    y + BAR / 2.0 + 4.5,
                    share * 100.0
                );
            }
            x += width;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(sizes: &[f64]) -> String {
        let segments = sizes.iter().enumerate().map(|(part, &size)| Segment { part, size }).collect();
        let legend = (0..3).map(|i| (format!("part {i}"), i)).collect();
        let bars = vec![Bar { name: "a & b".into(), segments }];
        BarChart { title: "t".into(), description: "d".into(), width: 500.0, legend, bars }.render()
    }

    #[test]
    fn parts_fill_the_bar_in_proportion() {
        let svg = chart(&[1.0, 3.0, 0.0]);
        let widths: Vec<&str> = svg
            .lines()
            .filter(|l| l.contains("\"segment"))
            .filter_map(|l| l.split("width=\"").nth(1)?.split('"').next())
            .collect();
        assert_eq!(widths, ["100.0", "300.0"], "a part of nothing is not drawn");
        assert!(svg.contains("a &amp; b: part 1, 75.0 %"));
    }

    /// A letter is about 7.2 units wide; the name ends before its bar begins.
    #[test]
    fn the_longest_name_is_whole() {
        let name = "a name of twenty-five let";
        let bars = vec![Bar { name: name.into(), segments: vec![Segment { part: 0, size: 1.0 }] }];
        let legend = vec![("part".into(), 0)];
        let chart = BarChart { title: String::new(), description: String::new(), width: 520.0, legend, bars };
        let svg = chart.render();
        let after = |text: &str, key: &str| -> f64 {
            let value = text.split(&format!("{key}=\"")).nth(1).unwrap();
            value.split('"').next().unwrap().parse().unwrap()
        };
        let label = svg.lines().find(|line| line.contains("class=\"name\"")).unwrap();
        let bar = svg.lines().find(|line| line.contains("class=\"segment")).unwrap();
        assert!(after(label, "x") - LETTER * name.len() as f64 > 0.0, "{label}");
        assert!(after(bar, " x") > after(label, "x"), "{bar}");
        assert!((after(bar, " x") + after(bar, "width") - 520.0).abs() < 0.2, "{bar}");
    }

    #[test]
    fn an_empty_bar_is_only_its_name() {
        assert!(!chart(&[0.0, 0.0]).contains("\"segment"));
        assert!(!chart(&[]).contains("\"segment"));
    }

    #[test]
    fn a_long_legend_breaks_into_rows() {
        let legend = (0..12).map(|i| (format!("a rather long name {i}"), i % 8)).collect();
        let svg =
            BarChart { title: String::new(), description: String::new(), width: 400.0, legend, bars: vec![] }
                .render();
        let rows: std::collections::BTreeSet<&str> =
            svg.lines().filter(|l| l.starts_with("<text")).filter_map(|l| l.split("y=\"").nth(1)).collect();
        assert!(rows.len() > 4);
    }
}
