//! Recovery as its connection sees it: scripts with exact times, two ends over a link, and properties.

mod delivery;
mod ecn;
mod link;
mod lossy;
mod properties;
mod script;
mod spurious;
mod tail;
mod theory;
mod timeout;
mod window;
mod with_sack;
mod without_sack;
