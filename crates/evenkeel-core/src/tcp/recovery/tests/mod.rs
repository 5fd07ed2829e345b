//! Recovery as its connection sees it: scripts with exact times, two ends over a link, and properties.

mod ecn;
mod script;
mod spurious;
mod tail;
mod timeout;
mod window;
mod with_sack;
mod without_sack;
