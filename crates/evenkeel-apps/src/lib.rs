//! Programs that run on a host, and the demonstration.
#![forbid(unsafe_code)]

pub mod blast;
pub mod blaster;
pub mod captures;
pub mod chart;
mod cores;
pub mod counters;
pub mod demo;
mod dice;
pub mod doctor;
pub mod exporter;
pub mod far_ends;
pub mod file_service;
pub mod guard;
pub mod host_setup;
mod hosted;
pub mod http;
pub mod latency;
pub mod link_plan;
pub mod load;
pub mod measure;
pub mod monitor;
mod on_veth;
pub mod pace;
pub mod quantity;
mod reports;
pub mod requests;
pub mod route;
pub mod sending;
pub mod serve;
pub mod service;
pub mod stream;
pub mod supervised;
pub mod text;
#[cfg(test)]
mod two_hosts;
pub mod wan;
