//! The checks of the livelock paper's mechanisms (Mogul and Ramakrishnan, TOCS 1997), on its router in
//! virtual time. Results in figures of the paper are experiments of `evenkeel-lab`, and checks without a
//! machine model are tests of `evenkeel-core`. The rest is here.
//!
//! - interrupt-driven input (4, 6.3)
//!   - output falls linearly to nothing: `baseline::output_falls_until_nothing_is_left`, lab `l97-fig2`
//!   - losses sit at the IP queue, not at the ring:
//!     `baseline::what_interrupts_cannot_process_dies_in_the_ip_queue`
//!   - losses sit at the screening queue: `baseline::with_screening_it_dies_in_the_screening_queue`
//!   - batching moves the livelock point:
//!     `baseline::batching_moves_the_livelock_point_and_does_not_remove_it`
//!   - the latency of a burst's first packet: lab `l97-fig1`
//!   - it is livelock, not deadlock: `recovery::a_lower_rate_restores_the_output_at_once`
//!   - transmitting starves in three ways (4.4): core `output.rs`
//! - polling (6.4)
//!   - one interrupt a packet at low load: `polling::at_low_load_each_packet_interrupts`
//!   - latency at low load: lab `l97-fig13`
//!   - none in overload, losses at the ring, output at its peak:
//!     `polling::in_overload_interrupts_cease_and_the_ring_sheds`
//!   - polling switched off: lab `l97-fig5`
//!   - a burst of three: lab `l97-fig14`
//! - quota (6.6.2)
//!   - without one, packets die at the output queue:
//!     `polling::without_a_quota_packets_die_in_the_output_queue`
//!   - its best size; with screening: lab `l97-fig7`, `l97-fig8`, `l97-fig9`
//!   - the worst latency grows with it: `fairness::the_worst_latency_of_a_packet_grows_with_the_quota`
//!   - a dynamic one: `polling::a_dynamic_quota_forwards_as_much_as_the_best_fixed_one`, core `policies.rs`
//! - feedback (6.6.1)
//!   - screening without livelock: lab `l97-fig6`
//!   - losses at the ring only: `feedback::with_feedback_packets_die_in_the_ring`
//!   - a hung consumer:
//!     `feedback::a_hung_screening_process_blocks_nobody_for_longer_than_a_tick`, core `screening.rs`
//!   - hysteresis, a long timeout: `feedback::with_a_long_timeout_input_resumes_every_sixteen_packets`
//!   - a timeout of one tick: `feedback::with_a_timeout_of_a_tick_it_resumes_at_every_tick`
//! - packet filter (9)
//!   - capture rates: lab `l97-fig15`
//!   - cost independent of the size of packets:
//!     `feedback::a_monitor_captures_as_many_packets_whatever_their_size`
//!   - resuming on space:
//!     `feedback::a_monitor_captures_in_overload_whatever_lets_input_resume`, core `capture.rs`
//! - cycle limit (7)
//!   - shares: lab `l97-fig10`
//!   - an idle system never waits for the period: `cycles::an_idle_router_never_waits_for_the_period`
//!   - first packet within m of n ms:
//!     `cycles::the_first_packet_of_a_flood_reaches_its_program_within_the_limit`
//! - active flag (8.2)
//!   - packets 2 and 3 of a burst: lab `l97-fig14`
//!   - order, peak: `polling::handing_over_at_once_costs_next_to_nothing`, lab `l97-fig14`, core `output.rs`
//!   - interrupts rise only below saturation of the link:
//!     `polling::handing_over_at_once_adds_no_interrupts_where_the_link_is_saturated`
//! - alternatives (5, 10)
//!   - ideal, realizable or livelock-prone: `classes::*`
//!   - sampling at clock ticks: what a process gets:
//!     `alternatives::without_a_cycle_counter_a_process_gets_the_ticks_of_the_pauses`
//!   - handlers that only set a flag, and where they livelock:
//!     `alternatives::flags_livelock_only_when_frames_are_closer_than_a_handler_takes`
//!   - weights of real-time tasks:
//!     `alternatives::a_transmit_side_of_too_little_weight_lets_frames_die_in_the_output_queue`
//!   - scheduling by the length of queues: `alternatives::by_length_*`
//! - end systems (6.2, 8.3)
//!   - a server thread with feedback from its queue:
//!     `feedback::a_server_makes_progress_if_its_queue_gives_feedback`
//!   - a legacy driver beside a polled one:
//!     `fairness::a_legacy_driver_beside_a_polled_one_can_still_livelock_the_rest`, core `forwarding.rs`
//! - across all
//!   - recovery: `recovery::*`
//!   - fairness: `fairness::*`
//!   - work for a packet that is dropped: `classes::what_is_dropped_early_costs_nothing`
//!   - an idle system does nothing: `recovery::an_idle_router_does_nothing`

mod alternatives;
mod baseline;
mod classes;
mod cycles;
mod fairness;
mod feedback;
mod polling;
mod recovery;
mod rig;
