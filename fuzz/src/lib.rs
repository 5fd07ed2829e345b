//! The functions that the fuzz targets run on an input.
//!
//! An input is a script: its bytes choose the next call and its arguments, so that mutated scripts stay
//! meaningful and most frames have right checksums. The targets assert what must hold for any input. The
//! core's tests run the same functions over `seeds/`.

pub mod demux;
pub mod forward;
pub mod frames;
pub mod host;
pub mod ip_input;
pub mod script;
pub mod sent;
pub mod tcp_cookies;
pub mod tcp_options;
pub mod tcp_segment;

use script::Script;
