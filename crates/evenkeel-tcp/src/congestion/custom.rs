//! Algorithms of the caller's own.

use alloc::boxed::Box;
use core::ptr::fn_addr_eq;

use super::control::CongestionControl;

/// A congestion control algorithm of the caller's own: the function that creates its state for a connection.
///
/// ```
/// use std::sync::Arc;
///
/// use evenkeel_tcp::congestion::{Algorithm, Arrival, CongestionControl, Custom, Window};
/// use evenkeel_tcp::recovery::RecoveryConfig;
/// use evenkeel_tcp::{Config, EndpointConfig};
///
/// /// A window of as many segments as the path is known to hold.
/// #[derive(Debug)]
/// struct Fixed(u32);
///
/// impl CongestionControl for Fixed {
///     fn name(&self) -> &'static str {
///         "fixed"
///     }
///
///     fn on_arrival(&mut self, window: &mut Window, _arrival: &Arrival) {
///         window.cwnd = self.0 * window.mss;
///     }
///
///     fn on_congestion(&mut self, window: &mut Window, _flight: u32) {
///         window.ssthresh = self.0 * window.mss;
///     }
///
///     fn on_undo(&mut self, _window: &Window) {}
/// }
///
/// let algorithm = Algorithm::Custom(Custom::new(|| Box::new(Fixed(40))));
/// let recovery = Arc::new(RecoveryConfig { algorithm, ..RecoveryConfig::default() });
/// let connection = Arc::new(Config { recovery, ..Config::default() });
/// let endpoint = EndpointConfig { connection, ..EndpointConfig::default() };
/// # let _ = endpoint;
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Custom(fn() -> Box<dyn CongestionControl>);

impl Custom {
    /// Creates the algorithm whose state for each new connection comes from `start`.
    #[must_use]
    pub const fn new(start: fn() -> Box<dyn CongestionControl>) -> Self {
        Self(start)
    }

    pub(super) fn start(self) -> Box<dyn CongestionControl> {
        (self.0)()
    }
}

/// Two are equal if they are the same function. The compiler may merge functions of equal code, or copy one.
impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        fn_addr_eq(self.0, other.0)
    }
}

impl Eq for Custom {}
