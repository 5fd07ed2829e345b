//! A writer for the passing frames of one interface.

use std::io::{self, Write};

use evenkeel_core::wire::EthernetAddress;

use super::encode::{self, Described, Direction, Packet, Totals};

/// Writes the frames of one interface as pcapng.
#[derive(Debug)]
pub struct Dump<W> {
    output: W,
    frames: u64,
    /// The block being built. Its memory is reused, so that frames need no allocation.
    block: Vec<u8>,
}

impl<W: Write> Dump<W> {
    /// Begins a file with one interface. `output` should be buffered.
    ///
    /// # Errors
    /// Those of `output`.
    pub fn new(output: W, interface: &str, address: EthernetAddress) -> io::Result<Self> {
        let mut dump = Self { output, frames: 0, block: Vec::with_capacity(4096) };
        let described =
            Described { name: interface.to_owned(), address: Some(address), ..Described::default() };
        dump.write(|block| encode::begin(block, "", &[described]))?;
        Ok(dump)
    }

    /// Writes a frame that passed at `time`, in nanoseconds since 1970.
    ///
    /// # Errors
    /// Those of `output`. The file is then damaged at its end.
    pub fn frame(&mut self, direction: Direction, time: u64, frame: &[u8]) -> io::Result<()> {
        self.frames += 1;
        let original_bytes = frame.len() as u32;
        let packet = Packet {
            interface: 0,
            direction,
            time,
            original_bytes,
            dropped_before: 0,
            bytes: frame,
            comment: "",
        };
        self.write(|block| encode::packet(block, &packet))
    }

    /// Ends the file with the interface's statistics. Returns the frames written.
    ///
    /// # Errors
    /// Those of `output`.
    pub fn finish(&mut self, totals: Totals) -> io::Result<u64> {
        self.write(|block| encode::statistics(block, 0, &totals))?;
        self.output.flush()?;
        Ok(self.frames)
    }

    fn write(&mut self, add: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.block.clear();
        add(&mut self.block);
        self.output.write_all(&self.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Reader;

    #[test]
    fn what_is_written_reads_back() {
        let mut file = Vec::new();
        let mut dump = Dump::new(&mut file, "ek0", EthernetAddress([2, 0, 0, 0, 0, 1])).unwrap();
        let frames: Vec<Vec<u8>> = (0..70).map(|len| vec![len as u8; len]).collect();
        for (number, frame) in frames.iter().enumerate() {
            let direction = if number % 2 == 0 { Direction::Inbound } else { Direction::Outbound };
            dump.frame(direction, (7 << 33) + number as u64, frame).unwrap();
        }
        assert_eq!(dump.finish(Totals::default()).unwrap(), 70);
        let mut reader = Reader::new(&file[..]).unwrap();
        for (number, frame) in frames.iter().enumerate() {
            assert!(reader.advance().unwrap());
            assert_eq!((reader.frame(), reader.time()), (&frame[..], (7 << 33) + number as u64));
        }
        assert!(!reader.advance().unwrap());
    }
}
