//! The system calls: what a program may ask of its host.
//!
//! [`System`] is a program's view of its host. Each kind of object that a program can open has a small type,
//! its handle; the calls on the object are the methods of the handle.
//!
//! | looking for | file |
//! | --- | --- |
//! | the beginning and the end of a call; the step that it is part of | `state.rs` |
//! | descriptors: close, dup, limits | `descriptors.rs` |
//! | waiting: `select`, `poll`, wakers | `waiting.rs` |
//! | UDP sockets: bind, join, send; receive | `udp.rs`; `lazy_receive.rs` |
//! | TCP: listen, accept; connect, read, write | `listener.rs`; `stream.rs` |
//! | event queues | `event_queue.rs` |
//! | timers, user events | `timer.rs`, `user_event.rs` |
//! | TCP input in the calls of threads outside | `segments_in_calls.rs` |
//! | screening, capturing | `screen.rs`, `capture.rs` |

mod capture;
mod descriptors;
mod event_queue;
mod handle;
mod lazy_receive;
mod listener;
mod screen;
mod segments_in_calls;
mod state;
mod stream;
mod timer;
mod udp;
mod user_event;
mod waiting;

pub use capture::CaptureSocket;
pub(crate) use descriptors::close;
pub use event_queue::EventQueue;
pub use listener::TcpListener;
pub use screen::Screen;
pub(crate) use state::BetweenCalls;
pub use state::System;
pub use stream::TcpStream;
pub use timer::Timer;
pub use udp::UdpSocket;
pub use user_event::UserEvent;
