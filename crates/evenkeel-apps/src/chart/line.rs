//! A line chart with names at the ends of its curves.

use core::fmt::Write as _;

use super::scale::{Axis, Span};
use super::svg::{SERIES, escape, open, plain_style};

/// Curves over a common axis.
#[derive(Debug)]
pub struct LineChart {
    /// The title of the chart, in a few words.
    pub title: String,
    /// A description of the chart, in a sentence or two, for readers who cannot see it.
    pub description: String,
    /// Width and height in units of the picture; text is 13 of them high.
    pub size: (f64, f64),
    /// The horizontal axis, left to right.
    pub x: Axis,
    /// The vertical axis, bottom to top.
    pub y: Axis,
    /// The curves.
    pub curves: Vec<Curve>,
    /// A dashed curve `y = x` with this name, for an ideal.
    pub diagonal: Option<String>,
}

/// A curve of a [`LineChart`].
#[derive(Debug)]
pub struct Curve {
    /// The name of the curve, shown at its end.
    pub name: String,
    /// The colour and marker of the curve, `0..SERIES`.
    pub style: usize,
    /// Whether the curve is dashed and without markers: a reference that was not measured.
    pub dashed: bool,
    /// The points of the curve, left to right. A `y` of `None` is a gap.
    pub points: Vec<(f64, Option<f64>)>,
}

const LEFT: f64 = 64.0;
const TOP: f64 = 16.0;
/// The least margin on the right, where the names stand.
const RIGHT: f64 = 112.0;
/// The rough width of a character of a name.
const CHARACTER: f64 = 7.8;
const BOTTOM: f64 = 52.0;
/// The room for the title in a file.
const HEADING: f64 = 36.0;
/// The distance at which the ends of curves count as one place, or below it.
const TOGETHER: f64 = 1.0;
/// The least distance between the names of two curves.
const NAME_HEIGHT: f64 = 17.0;

impl LineChart {
    /// Renders the chart as an SVG picture.
    #[must_use]
    pub fn render(&self) -> String {
        let (width, height) = self.size;
        let xs = self.curves.iter().flat_map(|c| c.points.iter().map(|p| p.0));
        let ys = self.curves.iter().flat_map(|c| c.points.iter().filter_map(|p| p.1));
        let x = self.x.over(xs, LEFT, width - self.margin());
        let y = self.y.over(ys, height - BOTTOM, TOP).rounded();
        let mut svg = open(width, height, &self.title, &self.description);
        self.grid(&mut svg, &x, &y);
        self.reference(&mut svg, &x, &y);
        for curve in &self.curves {
            curve.draw(&mut svg, &x, &y, self);
        }
        self.names(&mut svg, &x, &y);
        svg.push_str("</svg>\n");
        svg
    }

    /// Renders the picture as a file of its own, with its title and its style sheet.
    #[must_use]
    pub fn file(&self) -> String {
        let (width, height) = self.size;
        let (all, title) = (height + HEADING, escape(&self.title));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {all}\" width=\"{width}\" \
             height=\"{all}\">\n<style>\n{}</style>\n<rect width=\"{width}\" height=\"{all}\" \
             fill=\"#ffffff\"/>\n<g class=\"chart\"><text class=\"heading name\" x=\"16\" \
             y=\"26\">{title}</text></g>\n<svg y=\"{HEADING}\" width=\"{width}\" height=\"{height}\">\n\
             {}</svg>\n</svg>\n",
            plain_style(),
            self.render()
        )
    }

    /// Returns the width reserved for the names of the curves.
    fn margin(&self) -> f64 {
        let longest = self.curves.iter().map(|curve| curve.name.chars().count()).max().unwrap_or(0);
        CHARACTER.mul_add(longest as f64, 28.0).max(RIGHT)
    }

    fn grid(&self, svg: &mut String, x: &Span, y: &Span) {
        let (width, height) = self.size;
        let (right, bottom) = (width - self.margin(), height - BOTTOM);
        for tick in y.ticks() {
            let Some(at) = y.place(tick) else { continue };
            let _ = writeln!(svg, "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>");
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                at + 4.5,
                escape(&(self.y.format)(tick))
            );
        }
        for tick in x.ticks() {
            let Some(at) = x.place(tick) else { continue };
            let _ = writeln!(svg, "<path class=\"axis\" d=\"M{at:.1} {bottom}v5\"/>");
            let _ = writeln!(
                svg,
                "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 20.0,
                escape(&(self.x.format)(tick))
            );
        }
        let _ = writeln!(svg, "<path class=\"axis\" d=\"M{LEFT} {bottom}H{right}\"/>");
        let _ = writeln!(
            svg,
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, right),
            height - 10.0,
            escape(&self.x.label)
        );
        let middle = f64::midpoint(TOP, bottom);
        let _ = writeln!(
            svg,
            "<text class=\"name\" transform=\"translate(14 {middle:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>",
            escape(&self.y.label)
        );
    }

    /// Draws the diagonal as far as it stays in the picture, with its name half way up.
    fn reference(&self, svg: &mut String, x: &Span, y: &Span) {
        let Some(name) = &self.diagonal else { return };
        let inside = x.steps(200).filter(|v| *v <= y.high());
        let places: Vec<_> = inside.filter_map(|v| Some((x.place(v)?, y.place(v)?))).collect();
        let Some(&(end, top)) = places.last() else { return };
        let _ = writeln!(svg, "<path class=\"reference\" d=\"{}\"/>", path(&[places]));
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", end + 8.0, top + 10.0, escape(name));
    }

    /// Draws each name at the end of its curve. Names that would overlap are moved apart.
    fn names(&self, svg: &mut String, x: &Span, y: &Span) {
        let (width, height) = self.size;
        let mut names: Vec<(f64, f64, &Curve)> = Vec::new();
        for curve in &self.curves {
            names.extend(curve.places(x, y).next().map(|(px, py)| (px, py, curve)));
        }
        // If curves end in one place, the curve that comes from above has the upper name.
        names.sort_by(|a, b| {
            let heights = a.2.places(x, y).zip(b.2.places(x, y)).map(|((_, a), (_, b))| (a, b));
            let apart = heights.into_iter().find(|(a, b)| (a - b).abs() > TOGETHER);
            apart.map_or(core::cmp::Ordering::Equal, |(a, b)| a.total_cmp(&b))
        });
        let ends: Vec<f64> = names.iter().map(|n| n.1).collect();
        let rows = spread(&ends, NAME_HEIGHT, TOP, height - BOTTOM);
        for (&(px, py, curve), row) in names.iter().zip(rows) {
            let style = curve.style % SERIES;
            let at = width - self.margin() + 14.0;
            let _ = writeln!(
                svg,
                "<path class=\"leader s{style}\" d=\"M{:.1} {py:.1}L{:.1} {row:.1}\"/>",
                px + 6.0,
                at - 3.0
            );
            let _ = writeln!(
                svg,
                "<text class=\"end m{style}\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
                row + 4.5,
                escape(&curve.name)
            );
        }
    }
}

impl Curve {
    /// Returns the places of the curve's points on the picture, the last one first. Points without a place
    /// are left out.
    fn places(&self, x: &Span, y: &Span) -> impl Iterator<Item = (f64, f64)> {
        self.points.iter().rev().filter_map(|&(px, py)| Some((x.place(px)?, y.place(py?)?)))
    }

    fn draw(&self, svg: &mut String, x: &Span, y: &Span, chart: &LineChart) {
        let style = self.style % SERIES;
        let places: Vec<Option<(f64, f64)>> =
            self.points.iter().map(|&(px, py)| Some((x.place(px)?, y.place(py?)?))).collect();
        let pieces: Vec<Vec<(f64, f64)>> =
            places.split(Option::is_none).map(|piece| piece.iter().flatten().copied().collect()).collect();
        let kind = if self.dashed { "curve dashed" } else { "curve" };
        let _ = writeln!(svg, "<path class=\"{kind} s{style}\" d=\"{}\"/>", path(&pieces));
        if self.dashed {
            return;
        }
        for (&(px, py), place) in self.points.iter().zip(&places) {
            let (Some(py), Some((left, top))) = (py, place) else { continue };
            let hint = format!("{}: {} at {}", self.name, (chart.y.format)(py), (chart.x.format)(px));
            let _ = writeln!(
                svg,
                "<path class=\"mark m{style}\" d=\"{}\"><title>{}</title></path>",
                marker(style, *left, *top),
                escape(&hint)
            );
        }
    }
}

fn path(pieces: &[Vec<(f64, f64)>]) -> String {
    let mut d = String::new();
    for piece in pieces {
        for (i, (left, top)) in piece.iter().enumerate() {
            let _ = write!(d, "{}{left:.1} {top:.1}", if i == 0 { 'M' } else { 'L' });
        }
    }
    d
}

/// Returns the marker of a style. Each style has its own shape, so that no reader depends on colour.
fn marker(style: usize, x: f64, y: f64) -> String {
    match style {
        0 => format!("M{:.1} {y:.1}a4.4 4.4 0 1 0 8.8 0a4.4 4.4 0 1 0 -8.8 0z", x - 4.4),
        1 => format!("M{:.1} {:.1}h8v8h-8z", x - 4.0, y - 4.0),
        2 => format!("M{x:.1} {:.1}l5 9h-10z", y - 5.5),
        3 => format!("M{x:.1} {:.1}l5.4 5.4l-5.4 5.4l-5.4 -5.4z", y - 5.4),
        4 => format!("M{x:.1} {:.1}l5 -9h-10z", y + 5.5),
        6 => format!("M{:.1} {:.1}h9v4h-9z", x - 4.5, y - 2.0),
        _ => format!("M{:.1} {:.1}h2.6v2.6h2.6v2.6h-2.6v2.6h-2.6v-2.6h-2.6v-2.6h2.6z", x - 1.3, y - 3.9),
    }
}

/// Moves sorted places apart to a distance of at least `gap`, keeps their order, and stays within `low..high`
/// if it can.
fn spread(places: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut spread = places.to_vec();
    let mut at_least = low;
    for place in &mut spread {
        *place = place.max(at_least);
        at_least = *place + gap;
    }
    let mut at_most = high;
    for place in spread.iter_mut().rev() {
        *place = place.min(at_most);
        at_most = *place - gap;
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Scale;

    fn chart(points: Vec<(f64, Option<f64>)>) -> String {
        let axis = |label: &str, scale| Axis {
            label: label.into(),
            scale,
            include: None,
            max: None,
            format: |v| format!("{v:.0}"),
        };
        LineChart {
            title: "t".into(),
            description: "d".into(),
            size: (500.0, 300.0),
            x: axis("offered <load>", Scale::Log),
            y: axis("delivered", Scale::Linear),
            curves: vec![Curve { name: "a".into(), style: 7, dashed: false, points }],
            diagonal: Some("ideal".into()),
        }
        .render()
    }

    #[test]
    fn a_gap_breaks_the_line_and_has_no_marker() {
        let svg =
            chart(vec![(1.0, Some(1.0)), (2.0, Some(2.0)), (4.0, None), (8.0, Some(3.0)), (9.0, Some(4.0))]);
        let curve = svg.lines().find(|l| l.contains("class=\"curve")).unwrap();
        assert_eq!(curve.matches('M').count(), 2);
        assert_eq!(svg.matches("class=\"mark").count(), 4);
        assert!(svg.contains("offered &lt;load&gt;") && svg.contains("ideal"));
    }

    #[test]
    fn a_file_stands_alone_and_a_reference_is_dashed() {
        let axis = || Axis {
            label: "x".into(),
            scale: Scale::Linear,
            include: None,
            max: Some(5.0),
            format: |v| format!("{v:.0}"),
        };
        let curve = |name: &str, dashed| Curve {
            name: name.into(),
            style: 0,
            dashed,
            points: vec![(0.0, Some(1.0)), (1.0, Some(2.0)), (2.0, Some(50.0))],
        };
        let curves = vec![curve("measured", false), curve("what a paper has, a long name", true)];
        let chart = LineChart {
            title: "a < b".into(),
            description: "d".into(),
            size: (800.0, 300.0),
            x: axis(),
            y: axis(),
            curves,
            diagonal: None,
        };
        let file = chart.file();
        assert!(file.starts_with("<svg xmlns=") && file.contains("<style>") && file.ends_with("</svg>\n"));
        assert!(file.contains(">a &lt; b</text>"), "{file}");
        assert_eq!(file.matches("class=\"curve dashed s0\"").count(), 1);
        assert_eq!(
            file.matches("class=\"mark m0\"").count(),
            2,
            "one is beyond the axis, a reference has none"
        );
        let longest = file.matches("what a paper has, a long name</text>").count();
        assert!(longest == 1 && chart.margin() > 200.0, "{}", chart.margin());
    }

    /// Three curves end at the same place, and come there from different heights.
    #[test]
    fn names_of_curves_that_end_together_are_in_the_order_of_the_curves() {
        let curve = |name: &str, before: f64| Curve {
            name: name.into(),
            style: 0,
            dashed: false,
            points: vec![(1.0, Some(before)), (2.0, Some(before)), (4.0, Some(1.0))],
        };
        let axis = |scale| Axis {
            label: String::new(),
            scale,
            include: None,
            max: None,
            format: |v| format!("{v:.0}"),
        };
        let chart = LineChart {
            title: "t".into(),
            description: "d".into(),
            size: (500.0, 300.0),
            x: axis(Scale::Log),
            y: axis(Scale::Linear),
            curves: vec![curve("low", 20.0), curve("high", 90.0), curve("middle", 60.0)],
            diagonal: None,
        };
        let svg = chart.render();
        let names: Vec<&str> = svg
            .lines()
            .filter(|line| line.contains("class=\"end"))
            .map(|line| line.split('>').nth(1).unwrap().split('<').next().unwrap())
            .collect();
        assert_eq!(names, ["high", "middle", "low"], "the upper one first");
    }

    #[test]
    fn nothing_to_draw_is_drawn() {
        for points in [vec![], vec![(0.0, Some(0.0))], vec![(f64::NAN, None)]] {
            assert!(chart(points).ends_with("</svg>\n"));
        }
    }

    #[test]
    fn names_keep_order_distance_and_bounds() {
        assert_eq!(spread(&[10.0, 11.0, 12.0], 5.0, 0.0, 100.0), [10.0, 15.0, 20.0]);
        assert_eq!(spread(&[97.0, 98.0, 99.0], 5.0, 0.0, 100.0), [90.0, 95.0, 100.0]);
        assert_eq!(spread(&[-3.0, 50.0], 5.0, 0.0, 100.0), [0.0, 50.0]);
    }
}
