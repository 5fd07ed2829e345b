//! Line charts as inline SVG: axes, legend, linear or logarithmic scales. No fonts, scripts or files besides.

use std::fmt::Write as _;

/// How an axis maps values to places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Equal steps, equal distances. The axis includes zero.
    #[default]
    Linear,
    /// Equal ratios, equal distances. Values that are not positive are left out.
    Log,
}

/// One axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Axis {
    /// What it shows, with the unit.
    pub label: String,
    /// Its scale.
    pub scale: Scale,
    /// The greatest value shown; what is beyond is cut off. `None` shows all.
    pub max: Option<f64>,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Its points, drawn in this order.
    pub points: Vec<(f64, f64)>,
    /// Dashed, for what is not measured but a reference.
    pub dashed: bool,
}

/// A chart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chart {
    /// Its heading.
    pub title: String,
    /// The axis along the bottom.
    pub x: Axis,
    /// The axis up the left.
    pub y: Axis,
    /// Its lines. Colours repeat after eight.
    pub lines: Vec<Line>,
}

/// Eight colours that people with any kind of colour vision can tell apart (Okabe and Ito), dark enough for
/// white and light enough for dark paper.
const COLOURS: [&str; 8] =
    ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8b6f4e", "#7f7f7f"];

const WIDTH: f64 = 760.0;
const PLOT: Frame = Frame { left: 78.0, right: 740.0, top: 40.0, bottom: 330.0 };
const LEGEND_TOP: f64 = 392.0;
const LEGEND_COLUMNS: usize = 4;
const LEGEND_ROW: f64 = 20.0;

struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Chart {
    /// The chart as an `<svg>` element, to stand in an HTML page or, as it is, in a file. Text and axes take
    /// the page's text colour.
    #[must_use]
    pub fn svg(&self) -> String {
        let x = Range::of(&self.x, self.lines.iter().flat_map(|l| l.points.iter().map(|p| p.0)));
        let y = Range::of(&self.y, self.lines.iter().flat_map(|l| l.points.iter().map(|p| p.1)));
        let rows = self.lines.len().div_ceil(LEGEND_COLUMNS);
        let height = LEGEND_TOP + LEGEND_ROW * rows as f64;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" \
             role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"currentColor\">\n"
        );
        let title = escape(&self.title);
        let _ = writeln!(svg, "<title>{title}</title>");
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"20\" font-size=\"15\" font-weight=\"600\">{title}</text>",
            PLOT.left
        );
        self.draw_x_axis(&mut svg, &x);
        self.draw_y_axis(&mut svg, &y);
        for (index, line) in self.lines.iter().enumerate() {
            draw_line(&mut svg, line, COLOURS[index % COLOURS.len()], &x, &y);
            draw_legend(&mut svg, line, COLOURS[index % COLOURS.len()], index);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_x_axis(&self, svg: &mut String, range: &Range) {
        for (value, text) in range.ticks() {
            let at = range.place(value, PLOT.left, PLOT.right);
            rule(svg, (at, PLOT.top), (at, PLOT.bottom));
            let _ = writeln!(
                svg,
                "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
                PLOT.bottom + 18.0
            );
        }
        let (middle, below) = ((PLOT.left + PLOT.right) / 2.0, PLOT.bottom + 38.0);
        let _ = writeln!(
            svg,
            "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">{}</text>",
            escape(&self.x.label)
        );
    }

    fn draw_y_axis(&self, svg: &mut String, range: &Range) {
        for (value, text) in range.ticks() {
            let at = range.place(value, PLOT.bottom, PLOT.top);
            rule(svg, (PLOT.left, at), (PLOT.right, at));
            let (left, below) = (PLOT.left - 6.0, at + 4.0);
            let _ = writeln!(svg, "<text x=\"{left}\" y=\"{below:.1}\" text-anchor=\"end\">{text}</text>");
        }
        let middle = (PLOT.top + PLOT.bottom) / 2.0;
        let label = escape(&self.y.label);
        let _ = writeln!(
            svg,
            "<text transform=\"translate(16 {middle}) rotate(-90)\" text-anchor=\"middle\">{label}</text>"
        );
    }
}

fn rule(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"currentColor\" \
         stroke-opacity=\"0.15\"/>"
    );
}

fn draw_line(svg: &mut String, line: &Line, colour: &str, x: &Range, y: &Range) {
    let shown = |&&(px, py): &&(f64, f64)| x.shows(px) && y.shows(py);
    let places: Vec<(f64, f64)> = line
        .points
        .iter()
        .filter(shown)
        .map(|&(px, py)| (x.place(px, PLOT.left, PLOT.right), y.place(py, PLOT.bottom, PLOT.top)))
        .collect();
    let path: Vec<String> = places.iter().map(|(px, py)| format!("{px:.1},{py:.1}")).collect();
    let dash = if line.dashed { " stroke-dasharray=\"6 4\"" } else { "" };
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
         stroke-linejoin=\"round\"{dash}/>",
        path.join(" ")
    );
    if !line.dashed {
        for (px, py) in places {
            let _ = writeln!(svg, "<circle cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"2.6\" fill=\"{colour}\"/>");
        }
    }
}

fn draw_legend(svg: &mut String, line: &Line, colour: &str, index: usize) {
    let column = (PLOT.right - PLOT.left) / LEGEND_COLUMNS as f64;
    let left = PLOT.left + column * (index % LEGEND_COLUMNS) as f64;
    let y = LEGEND_TOP + LEGEND_ROW * (index / LEGEND_COLUMNS) as f64;
    let dash = if line.dashed { " stroke-dasharray=\"6 4\"" } else { "" };
    let (right, text, below) = (left + 22.0, left + 28.0, y + 4.0);
    let _ = writeln!(
        svg,
        "<line x1=\"{left:.1}\" y1=\"{y}\" x2=\"{right:.1}\" y2=\"{y}\" stroke=\"{colour}\" \
         stroke-width=\"3\"{dash}/>"
    );
    let _ = writeln!(svg, "<text x=\"{text:.1}\" y=\"{below}\">{}</text>", escape(&line.name));
}

/// What an axis covers.
struct Range {
    scale: Scale,
    low: f64,
    high: f64,
}

/// Ticks that a linear axis should have, about.
const TICKS: f64 = 6.0;

impl Range {
    fn of(axis: &Axis, values: impl Iterator<Item = f64>) -> Self {
        let usable = |v: &f64| {
            v.is_finite() && (axis.scale == Scale::Linear || *v > 0.0) && axis.max.is_none_or(|m| *v <= m)
        };
        let (low, high) = values
            .filter(usable)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        let (low, high) = if low <= high { (low, high) } else { (1.0, 1.0) };
        match axis.scale {
            Scale::Linear => {
                let high = if high > low.min(0.0) { high } else { low.min(0.0) + 1.0 };
                let step = nice_step((high - low.min(0.0)) / TICKS);
                Self {
                    scale: Scale::Linear,
                    low: (low.min(0.0) / step).floor() * step,
                    high: (high / step).ceil() * step,
                }
            }
            Scale::Log => {
                let high = if high > low { high } else { low * 10.0 };
                Self { scale: Scale::Log, low, high }
            }
        }
    }

    fn shows(&self, value: f64) -> bool {
        value.is_finite() && value >= self.low && value <= self.high * (1.0 + 1e-9)
    }

    /// Where between `from` and `to` a value stands.
    fn place(&self, value: f64, from: f64, to: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        from + share * (to - from)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let values = match self.scale {
            Scale::Linear => {
                let step = nice_step((self.high - self.low) / TICKS);
                let count = ((self.high - self.low) / step).round() as i32;
                (0..=count).map(|n| f64::from(n).mul_add(step, self.low)).collect()
            }
            Scale::Log => log_ticks(self.low, self.high),
        };
        values.into_iter().map(|v| (v, short(v))).collect()
    }
}

/// The step of 1, 2 or 5 times a power of ten next to `rough`, from above.
fn nice_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * power >= rough * (1.0 - 1e-9)).unwrap_or(10.0);
    factor * power
}

/// 1, 2 and 5 times powers of ten where that gives few, else the powers alone.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let factors: &[f64] = if (high / low).log10() <= 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let all = decades.flat_map(|d| factors.iter().map(move |f| f * 10_f64.powi(d)));
    all.filter(|&v| v >= low * (1.0 - 1e-9) && v <= high * (1.0 + 1e-9)).collect()
}

/// A number in few characters: 1500, 25 k, 1.2 M.
fn short(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, " G"),
        v if v >= 1e6 => (value / 1e6, " M"),
        v if v >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let digits = format!("{scaled:.3}");
    let digits =
        if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { &digits };
    format!("{}{suffix}", if digits == "-0" { "0" } else { digits })
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale) -> Axis {
        Axis { label: "x".into(), scale, max: None }
    }

    #[test]
    fn linear_axes_start_at_zero_and_end_at_a_round_number() {
        let range = Range::of(&axis(Scale::Linear), [120.0, 23_400.0].into_iter());
        assert_eq!((range.low, range.high), (0.0, 25_000.0));
        let texts: Vec<String> = range.ticks().into_iter().map(|t| t.1).collect();
        assert_eq!(texts, ["0", "5000", "10 k", "15 k", "20 k", "25 k"]);
        assert_eq!(range.place(12_500.0, 100.0, 200.0), 150.0);
    }

    #[test]
    fn log_axes_have_equal_distances_for_equal_ratios() {
        let range = Range::of(&axis(Scale::Log), [0.0, 10.0, 1000.0].into_iter());
        assert!((range.place(100.0, 0.0, 1.0) - 0.5).abs() < 1e-9);
        assert!(!range.shows(0.0));
        assert_eq!(range.ticks().len(), 7);
    }

    #[test]
    fn nothing_a_caller_passes_gives_a_broken_picture() {
        let odd = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300];
        for scale in [Scale::Linear, Scale::Log] {
            for points in
                [vec![], vec![(1.0, 1.0)], odd.iter().map(|&v| (v, v)).collect(), vec![(0.0, 0.0); 2]]
            {
                let line = Line { name: "a<b & \"c\"".into(), points, dashed: false };
                let chart = Chart { title: "t".into(), x: axis(scale), y: axis(scale), lines: vec![line] };
                let svg = chart.svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                assert!(svg.contains("a&lt;b &amp; &quot;c&quot;"));
            }
        }
    }

    #[test]
    fn every_line_is_drawn_and_named() {
        let lines = (0..9).map(|n| Line {
            name: format!("line {n}"),
            points: vec![(0.0, 1.0), (2.0, 3.0)],
            dashed: n == 8,
        });
        let chart = Chart { lines: lines.collect(), ..Chart::default() };
        let svg = chart.svg();
        assert_eq!(svg.matches("<polyline").count(), 9);
        assert_eq!(svg.matches("<circle").count(), 16);
        assert!(svg.contains(">line 8<"));
    }
}
