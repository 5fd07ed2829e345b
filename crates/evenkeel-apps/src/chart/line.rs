//! A line chart with names at the ends of its curves.

use core::fmt::Write as _;

use super::scale::{Axis, Span};
use super::svg::{SERIES, escape, open, plain_style};
use super::text::{lines_at, width as text_width, wrap};

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
    /// Whether the curve is dashed and its markers are hollow: a reference that was not measured.
    pub dashed: bool,
    /// The points of the curve, left to right. A `y` of `None` is a gap.
    pub points: Vec<(f64, Option<f64>)>,
}

/// The size of all letters in the picture.
const LETTERS: f64 = 13.0;
/// The place of the plot's upper edge. The label of the vertical axis stands above it.
const TOP: f64 = 34.0;
/// The least margin on the right, where the names stand.
const RIGHT: f64 = 64.0;
/// The room between the plot and the names, and between the names and the picture's edge.
const BEFORE_NAMES: f64 = 16.0;
const AFTER_NAMES: f64 = 4.0;
/// The width of the marker before a name, and its distance from the name.
const MARK: f64 = 10.0;
const AFTER_MARK: f64 = 5.0;
const BOTTOM: f64 = 52.0;
/// The sizes of the title and of the small print of a file, and the height of their lines.
const TITLE: f64 = 16.0;
const TITLE_PITCH: f64 = 21.0;
const SMALL_PRINT: f64 = 11.5;
const SMALL_PITCH: f64 = 16.0;
/// The share of the width of bold letters that regular ones have at most.
const REGULAR: f64 = 0.93;
/// The margin of a file on the left and on the right.
const MARGIN: f64 = 14.0;
/// The least distance between the names of two curves.
const NAME_HEIGHT: f64 = 17.0;
/// The least distance between the labels of two ticks.
const TICK_GAP: f64 = 8.0;

/// The axes of a chart laid over its plot.
struct Plot {
    x: Span,
    y: Span,
    left: f64,
    right: f64,
    bottom: f64,
}

impl LineChart {
    /// Renders the chart as an SVG picture.
    #[must_use]
    pub fn render(&self) -> String {
        let (width, height) = self.size;
        let plot = self.plot();
        let mut svg = open(width, height, &self.title, &self.description);
        self.grid(&mut svg, &plot);
        self.reference(&mut svg, &plot);
        for curve in &self.curves {
            curve.draw(&mut svg, &plot, self);
        }
        self.names(&mut svg, &plot);
        svg.push_str("</svg>\n");
        svg
    }

    /// Renders the picture as a file of its own, with a style sheet and a background. Its title stands
    /// above it and the small print `notes` below. The file names `command`, which made it.
    #[must_use]
    pub fn file(&self, notes: &[String], command: &str) -> String {
        let (width, height) = self.size;
        let title = wrap(&self.title, TITLE, width);
        let notes: Vec<String> =
            notes.iter().flat_map(|note| wrap(note, SMALL_PRINT * REGULAR, width)).collect();
        let heading = TITLE_PITCH.mul_add(title.len() as f64, 14.0);
        let small_print = SMALL_PITCH.mul_add(notes.len() as f64, if notes.is_empty() { 0.0 } else { 10.0 });
        let (wide, high) = (2.0f64.mul_add(MARGIN, width), heading + height + small_print);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {high}\" width=\"{wide}\" \
             height=\"{high}\">\n<metadata>{}</metadata>\n<style>\n{}</style>\n<rect width=\"{wide}\" \
             height=\"{high}\" fill=\"#ffffff\"/>\n<g class=\"chart\">\n{}{}</g>\n<svg x=\"{MARGIN}\" \
             y=\"{heading}\" width=\"{width}\" height=\"{height}\">\n{}</svg>\n</svg>\n",
            escape(command),
            plain_style(),
            lines_at(&title, "heading name", MARGIN, 26.0, TITLE_PITCH),
            lines_at(&notes, "small", MARGIN, heading + height + 10.0, SMALL_PITCH),
            self.render()
        )
    }

    /// Returns the axes in the place that the labels leave.
    fn plot(&self) -> Plot {
        let (width, height) = self.size;
        let (right, bottom) = (width - self.margin(), height - BOTTOM);
        let xs = self.curves.iter().flat_map(|c| c.points.iter().map(|p| p.0));
        let ys = self.curves.iter().flat_map(|c| c.points.iter().filter_map(|p| p.1));
        let y = self.y.over(ys, bottom, TOP).rounded();
        let tick = y.ticks().into_iter().map(|tick| text_width(&(self.y.format)(tick), LETTERS));
        let left = tick.fold(0.0, f64::max) + 12.0;
        Plot { x: self.x.over(xs, left, right), y, left, right, bottom }
    }

    /// Returns the width reserved for the names of the curves.
    fn margin(&self) -> f64 {
        let names = self.curves.iter().map(|curve| text_width(&curve.name, LETTERS));
        (names.fold(0.0, f64::max) + BEFORE_NAMES + MARK + AFTER_MARK + AFTER_NAMES).max(RIGHT)
    }

    fn grid(&self, svg: &mut String, plot: &Plot) {
        let Plot { x, y, left, right, bottom } = plot;
        for tick in y.ticks() {
            let Some(at) = y.place(tick) else { continue };
            let _ = writeln!(svg, "<path class=\"grid\" d=\"M{left:.1} {at:.1}H{right:.1}\"/>");
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 8.0,
                at + 4.5,
                escape(&(self.y.format)(tick))
            );
        }
        for tick in x.ticks() {
            let Some(at) = x.place(tick) else { continue };
            let _ = writeln!(svg, "<path class=\"axis\" d=\"M{at:.1} {bottom:.1}v5\"/>");
        }
        for (at, label) in self.tick_labels(x) {
            let _ = writeln!(
                svg,
                "<text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 20.0,
                escape(&label)
            );
        }
        let _ = writeln!(svg, "<path class=\"axis\" d=\"M{left:.1} {bottom:.1}H{right:.1}\"/>");
        let _ = writeln!(
            svg,
            "<text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(*left, *right),
            bottom + 42.0,
            escape(&self.x.label)
        );
        let _ = writeln!(svg, "<text class=\"name\" x=\"0\" y=\"14\">{}</text>", escape(&self.y.label));
    }

    /// Returns the labels of the horizontal axis with their places: those of all ticks, or of so many that
    /// they do not overlap.
    fn tick_labels(&self, x: &Span) -> Vec<(f64, String)> {
        let label = |tick: f64| Some((x.place(tick)?, (self.x.format)(tick)));
        let apart = |labels: &[(f64, String)]| {
            labels.windows(2).all(|pair| {
                let widths = pair.iter().map(|(_, label)| text_width(label, LETTERS)).sum::<f64>();
                pair[1].0 - pair[0].0 >= widths / 2.0 + TICK_GAP
            })
        };
        let choices = x.fewer_ticks().map(|ticks| ticks.into_iter().filter_map(label).collect::<Vec<_>>());
        let mut choices = choices.collect::<Vec<_>>().into_iter();
        choices.find(|labels| apart(labels)).unwrap_or_default()
    }

    /// Draws the diagonal as far as it stays in the picture. Its name is at its upper end, on the left, where
    /// no curve comes.
    fn reference(&self, svg: &mut String, plot: &Plot) {
        let Some(name) = &self.diagonal else { return };
        let Plot { x, y, left, bottom, .. } = plot;
        let places = x.steps(200).filter_map(|v| Some((x.place(v)?, y.place(v)?)));
        let places: Vec<_> = places.filter(|(_, py)| (TOP..=*bottom).contains(py)).collect();
        let Some(&(end, top)) = places.last() else { return };
        let _ = writeln!(svg, "<path class=\"reference\" d=\"{}\"/>", path(&[places]));
        let has_room = end - 10.0 - text_width(name, LETTERS) > *left;
        let (at, anchor) = if has_room { (end - 10.0, "end") } else { (end + 8.0, "start") };
        let name = escape(name);
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{name}</text>",
            top + 14.0
        );
    }

    /// Draws each name at the end of its curve. Names that would overlap are moved apart.
    fn names(&self, svg: &mut String, plot: &Plot) {
        let mut names: Vec<(f64, f64, &Curve)> = Vec::new();
        for curve in &self.curves {
            names.extend(curve.places(plot).next().map(|(px, py)| (px, py, curve)));
        }
        // If curves end in one place, the curve that comes from above has the upper name.
        names.sort_by_cached_key(|(_, _, curve)| -> Vec<i64> {
            #[expect(clippy::cast_possible_truncation, reason = "a place on the picture")]
            curve.places(plot).map(|(_, py)| py.round() as i64).collect()
        });
        let ends: Vec<f64> = names.iter().map(|n| n.1).collect();
        let rows = spread(&ends, NAME_HEIGHT, TOP, plot.bottom);
        let at = plot.right + BEFORE_NAMES;
        for (&(px, py, curve), row) in names.iter().zip(rows) {
            let style = curve.style % SERIES;
            let _ = writeln!(
                svg,
                "<path class=\"leader s{style}\" d=\"M{:.1} {py:.1}L{:.1} {row:.1}\"/>",
                px + 6.0,
                at - 3.0
            );
            curve.mark(svg, at + MARK / 2.0, row, "");
            let _ = writeln!(
                svg,
                "<text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                at + MARK + AFTER_MARK,
                row + 4.5,
                escape(&curve.name)
            );
        }
    }
}

impl Curve {
    /// Returns the places of the curve's points on the picture, the last one first. Points without a place
    /// are left out.
    fn places(&self, plot: &Plot) -> impl Iterator<Item = (f64, f64)> {
        self.points.iter().rev().filter_map(|&point| plot.place(point))
    }

    fn draw(&self, svg: &mut String, plot: &Plot, chart: &LineChart) {
        let style = self.style % SERIES;
        let places: Vec<Option<(f64, f64)>> = self.points.iter().map(|&point| plot.place(point)).collect();
        let pieces: Vec<Vec<(f64, f64)>> =
            places.split(Option::is_none).map(|piece| piece.iter().flatten().copied().collect()).collect();
        let kind = if self.dashed { "curve dashed" } else { "curve" };
        let _ = writeln!(svg, "<path class=\"{kind} s{style}\" d=\"{}\"/>", path(&pieces));
        for (&(px, py), place) in self.points.iter().zip(&places) {
            let (Some(py), Some((left, top))) = (py, place) else { continue };
            let hint = format!("{}: {} at {}", self.name, (chart.y.format)(py), (chart.x.format)(px));
            self.mark(svg, *left, *top, &format!("<title>{}</title>", escape(&hint)));
        }
    }

    /// Draws the curve's marker around a place, with `inner` in it.
    fn mark(&self, svg: &mut String, x: f64, y: f64, inner: &str) {
        let style = self.style % SERIES;
        let (class, shape) = match self.dashed {
            true => (format!("hollow s{style}"), HOLLOW),
            false => (format!("mark m{style}"), style),
        };
        let _ = writeln!(svg, "<path class=\"{class}\" d=\"{}\">{inner}</path>", marker(shape, x, y));
    }
}

impl Plot {
    /// Returns the place of a point; `None` if it has none.
    fn place(&self, (x, y): (f64, Option<f64>)) -> Option<(f64, f64)> {
        Some((self.x.place(x)?, self.y.place(y?)?))
    }
}

/// The number of the marker of a reference, which is drawn as an outline.
const HOLLOW: usize = 0;

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
    use proptest::collection::vec;
    use proptest::prelude::*;

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
        assert_eq!(svg.matches("class=\"mark").count(), 4 + 1, "each point has one, and the name");
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
        let file = chart.file(&["on < machine".to_owned()], "evenkeel lab run x --seeds 1");
        assert!(file.starts_with("<svg xmlns=") && file.contains("<style>") && file.ends_with("</svg>\n"));
        assert!(file.contains(">a &lt; b</text>"), "{file}");
        assert_eq!(file.matches("class=\"curve dashed s0\"").count(), 1);
        assert_eq!(
            file.matches("class=\"mark m0\"").count(),
            2 + 1,
            "one is beyond the axis, and a reference has hollow ones"
        );
        assert!(file.contains(">on &lt; machine</text>"), "{file}");
        assert!(file.contains("<metadata>evenkeel lab run x --seeds 1</metadata>"), "{file}");
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

    /// A text of a picture: where it begins and ends, and its baseline.
    #[derive(Debug)]
    struct Text {
        class: String,
        from: f64,
        to: f64,
        y: f64,
        words: String,
    }

    /// Returns the texts of a picture, whose letters are as wide as in any common font.
    fn texts(svg: &str) -> Vec<Text> {
        let line = |line: &str| {
            let of =
                |key: &str| Some(line.split(&format!(" {key}=\"")).nth(1)?.split('"').next()?.to_owned());
            let number = |key| of(key).unwrap().parse::<f64>().unwrap();
            let words = line.split('>').nth(1).unwrap().split('<').next().unwrap().to_owned();
            let width = text_width(&words, LETTERS);
            let from = match of("text-anchor").as_deref() {
                Some("end") => number("x") - width,
                Some("middle") => number("x") - width / 2.0,
                _ => number("x"),
            };
            Text { class: of("class").unwrap_or_default(), from, to: from + width, y: number("y"), words }
        };
        svg.lines().filter(|line| line.starts_with("<text")).map(line).collect()
    }

    fn overlap(a: &Text, b: &Text) -> bool {
        (a.y - b.y).abs() < LETTERS && a.from < b.to && b.from < a.to
    }

    const NAMES: [&str; 7] =
        ["eager", "early-demux", "polled", "soft-lrp", "ni-lrp", "Linux", "soft-lrp, 1 queue"];

    proptest! {
        /// All labels are whole and none covers another, whatever is drawn in whichever size. The names
        /// stand in the order of the ends of their curves.
        #[test]
        fn labels_are_whole_apart_and_in_order(
            heights in vec(vec(prop_oneof![Just(0.0), Just(1e5), 0.0..1e6], 2..13), 1..8),
            lowest in 1.0..1e6,
            ratio in 1.01..3.0,
            sizes in prop_oneof![Just((1060.0, 430.0)), Just((800.0, 420.0)), Just((360.0, 320.0))],
            scales in prop_oneof![Just((Scale::Log, Scale::Linear)), Just((Scale::Linear, Scale::Log))],
        ) {
            let axis = |label: &str, scale| {
                Axis { label: label.into(), scale, include: None, max: None, format: crate::quantity::short }
            };
            let loads = |n: usize| (0..n).map(|i| lowest * f64::powi(ratio, i as i32));
            let curves = heights.iter().zip(NAMES).enumerate().map(|(style, (heights, name))| Curve {
                name: name.into(),
                style,
                dashed: false,
                points: loads(heights.len()).zip(heights.iter().map(|y| Some(*y))).collect(),
            });
            let chart = LineChart {
                title: "t".into(),
                description: "d".into(),
                size: sizes,
                x: axis("requests offered, pps", scales.0),
                y: axis("requests delivered, pps", scales.1),
                curves: curves.collect(),
                diagonal: Some("no loss".into()),
            };
            let texts = texts(&chart.render());
            for text in &texts {
                prop_assert!(text.from >= 0.0 && text.to <= sizes.0 + 0.1, "{text:?}");
                prop_assert!(text.y - LETTERS >= 0.0 && text.y + 4.0 <= sizes.1, "{text:?}");
            }
            let of_axes = |text: &&Text| !text.class.is_empty();
            for (n, a) in texts.iter().filter(of_axes).enumerate() {
                for b in texts.iter().filter(of_axes).skip(n + 1) {
                    prop_assert!(!overlap(a, b), "{a:?} {b:?}");
                }
            }
            let plot = chart.plot();
            let end_of = |text: &Text| {
                let curve = chart.curves.iter().find(|curve| curve.name == text.words).unwrap();
                curve.places(&plot).next().unwrap().1
            };
            let names: Vec<&Text> = texts.iter().filter(|text| text.class.starts_with("end")).collect();
            prop_assert!(names.windows(2).all(|pair| pair[0].y < pair[1].y));
            prop_assert!(names.windows(2).all(|pair| end_of(pair[0]) <= end_of(pair[1]) + 1.0), "{names:?}");
            let with_end = chart.curves.iter().filter(|curve| curve.places(&plot).next().is_some());
            prop_assert_eq!(names.len(), with_end.count());
        }
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
