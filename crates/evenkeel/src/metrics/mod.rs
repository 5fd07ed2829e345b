//! The figures of a running host, as plain data: [`Snapshot`].
//!
//! A snapshot has the account of every frame, the drops by place and reason, the bill of each process, the
//! counters of each socket, the devices, the time of the core, and TCP. The thread that runs the host takes
//! one with [`Engine::snapshot`](crate::Engine::snapshot). Any other thread asks for one through a
//! [`Reader`].
//!
//! | subject | file |
//! | --- | --- |
//! | the snapshot: frames, drops, differences, the check that all frames are accounted for | `snapshot.rs` |
//! | the core; interfaces; processes, sockets; TCP | `cpu.rs`; `interface.rs`; `owned.rs`; `tcp.rs` |
//! | guards of the kernel's own sockets | `guarded.rs` |
//! | snapshots for other threads | `reader.rs` |
//! | snapshots for other processes (feature `json`) | `endpoint.rs`, `place.rs` |

mod cpu;
#[cfg(feature = "json")]
mod endpoint;
mod guarded;
mod interface;
#[cfg(feature = "json")]
mod json;
mod owned;
#[cfg(feature = "json")]
mod place;
mod reader;
mod snapshot;
mod tcp;

pub use cpu::{CpuShares, CpuTimes};
#[cfg(feature = "json")]
pub use endpoint::{Endpoint, GuardReader};
pub use guarded::{Guarded, Limited, LimitedAccount, PortAccount, Protocol, ThreadShare};
pub use interface::{Device, Interface, KernelDrops};
pub use owned::{Process, Socket};
#[cfg(feature = "json")]
pub use place::{Published, Unreadable, fetch, fetch_at, prepare_for_user, running};
pub(crate) use reader::publish;
pub use reader::{NoSnapshot, Reader};
pub use snapshot::{Dropped, Frames, Snapshot};
pub use tcp::{Listener, Tcp};
