//! TCP of a host: its endpoint, and the sockets that programs have of it.
//!
//! | looking for | file |
//! | --- | --- |
//! | what a host knows of its connections | `state.rs` |
//! | its secret; what the endpoint knows of who demultiplexes | `settings.rs` |
//! | segments in, segments out, passing time, what programs are told | `segments.rs` |
//! | the calls of programs that open and close | `calls.rs` |
//! | the calls on a stream | `streams.rs` |
//! | whose a segment is, and the channel where it waits | `channels.rs` |
//! | how much may wait: the buffers that all channels share | `segment_channels.rs` |
//! | who processes segments, and who hears of it | `activation.rs` |
//! | asynchronous protocol processing; the channels of listeners | `processing.rs` |

mod activation;
mod calls;
mod channels;
mod processing;
mod segment_channels;
mod segments;
mod settings;
mod state;
mod streams;

pub(crate) use state::Tcp;
