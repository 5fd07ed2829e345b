//! The figures of running commands in Prometheus' text format, printed once or served over HTTP.
//!
//! | subject | file |
//! | --- | --- |
//! | the metrics: names, types, labels, meanings | `families.rs` |
//! | reading all processes; values of the metrics; the text | `figures.rs`; `samples.rs`; `text.rs` |
//! | where to listen: TCP, or a Unix socket; serving requests | `listen.rs`; `serve.rs` |

mod families;
mod figures;
mod listen;
mod samples;
mod serve;
mod text;

pub use families::{Family, all};
pub use figures::{Figures, read};
pub use listen::{Address, ListenError, Listening};
pub use serve::{ServeError, serve};
pub use text::{CONTENT_TYPE, text};
