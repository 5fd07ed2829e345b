//! Recovery as its connection sees it: scripts with exact times, two ends over a link, and properties.

mod script;
mod with_sack;
