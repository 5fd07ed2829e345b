//! A driver hands out frames over memory of its own, as over a packet ring that the kernel maps. A second
//! thread processes them, and the driver learns which chunks it may give to the device again.
//!
//! `cargo run -p evenkeel-frame --example device_memory`
#![allow(clippy::print_stdout, reason = "it shows what it did")]

use core::ptr::NonNull;
use std::sync::mpsc;
use std::thread;

use evenkeel_frame::{Frame, Memory, Region};

const CHUNK_BYTES: usize = 2_048;
const CHUNKS: usize = 8;

fn main() {
    println!("a ring of {CHUNKS} chunks carried {} bytes in 100 packets", run(100));
}

/// The memory of the device. A real driver maps it.
struct Ring(NonNull<[u8]>);

impl Ring {
    fn new() -> Self {
        Self(NonNull::from(Box::leak(vec![0; CHUNKS * CHUNK_BYTES].into_boxed_slice())))
    }
}

// SAFETY: the value owns the memory, and any thread may use and free it.
#[expect(unsafe_code, reason = "memory that the compiler does not know")]
unsafe impl Send for Ring {}

// SAFETY: the memory is initialized, stays in place until the drop, and is reached through frames only.
#[expect(unsafe_code, reason = "memory that the compiler does not know")]
unsafe impl Memory for Ring {
    fn bytes(&self) -> NonNull<[u8]> {
        self.0
    }
}

impl Drop for Ring {
    #[expect(unsafe_code, reason = "memory that the compiler does not know")]
    fn drop(&mut self) {
        // SAFETY: it was leaked out of a box, and the last frame is gone.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// Receives `packets` packets in a ring of few chunks. Returns the number of bytes that the second thread
/// has seen.
pub(crate) fn run(packets: usize) -> usize {
    let mut region = Region::over(Ring::new(), CHUNK_BYTES);
    let (to_worker, frames) = mpsc::channel::<Frame>();
    let worker = thread::spawn(move || frames.iter().map(|frame| frame.len()).sum::<usize>());
    // The chunks that the device may write to.
    let mut free: Vec<usize> = (0..region.chunks()).collect();
    let mut received = 0;
    while received < packets {
        region.returned(|chunk| free.push(chunk));
        let Some(chunk) = free.pop() else {
            // The worker has all frames: a device would shed packets meanwhile.
            thread::yield_now();
            continue;
        };
        let mut frame = region.take(chunk).expect("a chunk that is home");
        assert!(frame.set(0, 1_000), "a chunk has room for the packet");
        frame.bytes_mut().fill(received as u8);
        to_worker.send(frame).expect("the worker runs until the channel is closed");
        received += 1;
    }
    drop(to_worker);
    worker.join().expect("the worker does not panic")
}
