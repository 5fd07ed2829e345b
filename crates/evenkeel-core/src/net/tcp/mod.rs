//! TCP of a host: its endpoint, and the sockets that programs have of it.
//!
//! | looking for | file |
//! | --- | --- |
//! | what a host knows of its connections | `state.rs` |
//! | its secret; what the endpoint knows of who demultiplexes | `settings.rs` |
//! | segments in, segments out, passing time, what programs are told | `segments.rs` |
//! | the calls of programs | `calls.rs` |
//! | channels of listeners and connections; asynchronous protocol processing | `processing.rs` |

mod calls;
mod processing;
mod segments;
mod settings;
mod state;

pub(crate) use state::Tcp;
