//! Charts as SVG for use inside a page, without scripts or external resources.
//!
//! Colours come from the page ([`STYLE`]), so that one picture serves light and dark. Series differ by
//! colour, by marker and by a label at their end.

mod bars;
mod line;
mod scale;
mod styles;
mod svg;
mod text;

pub use bars::{Bar, BarChart, Segment};
pub use line::{Curve, LineChart};
pub use scale::{Axis, Scale};
pub use styles::styles;
pub use svg::{SERIES, STYLE, escape};
