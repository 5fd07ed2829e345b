//! Writing pcapng.

use std::io::{self, Write};

use evenkeel_core::wire::EthernetAddress;

use super::{LINKTYPE_ETHERNET, block};

/// Writes the frames of one interface as pcapng, with time stamps in nanoseconds, in little-endian order.
#[derive(Debug)]
pub struct Dump<W> {
    output: W,
    frames: u64,
    /// The block being put together; kept, so that nothing is allocated per frame.
    block: Vec<u8>,
}

/// Which way a frame went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Received.
    Inbound = 1,
    /// Sent.
    Outbound = 2,
}

/// What the interface statistics at the end say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Nanoseconds since 1970 when the recording began.
    pub begin: u64,
    /// And when it ended.
    pub end: u64,
    /// Frames received, those dropped included.
    pub received: u64,
    /// Of these, shed by the interface.
    pub shed: u64,
}

/// Option codes.
mod option {
    pub(super) const END: u16 = 0;
    pub(super) const SHB_USERAPPL: u16 = 4;
    pub(super) const IF_NAME: u16 = 2;
    pub(super) const IF_MACADDR: u16 = 6;
    pub(super) const IF_TSRESOL: u16 = 9;
    pub(super) const EPB_FLAGS: u16 = 2;
    pub(super) const ISB_STARTTIME: u16 = 2;
    pub(super) const ISB_ENDTIME: u16 = 3;
    pub(super) const ISB_IFRECV: u16 = 4;
    pub(super) const ISB_IFDROP: u16 = 5;
}

impl<W: Write> Dump<W> {
    /// Begins a file with one interface. `output` should be buffered.
    ///
    /// # Errors
    /// Those of `output`.
    pub fn new(output: W, interface: &str, address: EthernetAddress) -> io::Result<Self> {
        let mut dump = Self { output, frames: 0, block: Vec::with_capacity(4096) };
        dump.write(block::SECTION, |block| {
            block.extend(block::BYTE_ORDER_MAGIC.to_le_bytes());
            block.extend([1, 0, 0, 0]); // version 1.0
            block.extend(u64::MAX.to_le_bytes()); // section length not given
            add_option(
                block,
                option::SHB_USERAPPL,
                concat!("evenkeel ", env!("CARGO_PKG_VERSION")).as_bytes(),
            );
            add_option(block, option::END, &[]);
        })?;
        dump.write(block::INTERFACE, |block| {
            block.extend(u32::from(LINKTYPE_ETHERNET).to_le_bytes());
            block.extend([0; 4]); // no snapshot length: frames are whole
            add_option(block, option::IF_NAME, interface.as_bytes());
            add_option(block, option::IF_MACADDR, &address.0);
            add_option(block, option::IF_TSRESOL, &[9]);
            add_option(block, option::END, &[]);
        })?;
        Ok(dump)
    }

    /// Writes a frame that passed at `time`, in nanoseconds since 1970.
    ///
    /// # Errors
    /// Those of `output`. The file is then damaged at its end.
    pub fn frame(&mut self, direction: Direction, time: u64, frame: &[u8]) -> io::Result<()> {
        self.frames += 1;
        let len = frame.len() as u32;
        self.write(block::ENHANCED_PACKET, |block| {
            block.extend([0; 4]); // the interface
            add_time(block, time);
            block.extend(len.to_le_bytes()); // captured
            block.extend(len.to_le_bytes()); // on the wire
            block.extend_from_slice(frame);
            pad(block);
            add_option(block, option::EPB_FLAGS, &(direction as u32).to_le_bytes());
            add_option(block, option::END, &[]);
        })
    }

    /// Ends the file with the interface's statistics. Returns the frames written.
    ///
    /// # Errors
    /// Those of `output`.
    pub fn finish(&mut self, totals: Totals) -> io::Result<u64> {
        self.write(block::STATISTICS, |block| {
            let time = |nanos: u64| {
                let mut octets = Vec::new();
                add_time(&mut octets, nanos);
                octets
            };
            block.extend([0; 4]); // the interface
            add_time(block, totals.end);
            add_option(block, option::ISB_STARTTIME, &time(totals.begin));
            add_option(block, option::ISB_ENDTIME, &time(totals.end));
            add_option(block, option::ISB_IFRECV, &totals.received.to_le_bytes());
            add_option(block, option::ISB_IFDROP, &totals.shed.to_le_bytes());
            add_option(block, option::END, &[]);
        })?;
        self.output.flush()?;
        Ok(self.frames)
    }

    fn write(&mut self, kind: u32, body: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        self.block.clear();
        self.block.extend(kind.to_le_bytes());
        self.block.extend([0; 4]);
        body(&mut self.block);
        let total = (self.block.len() as u32 + 4).to_le_bytes();
        if let Some(length) = self.block.get_mut(4..8) {
            length.copy_from_slice(&total);
        }
        self.block.extend(total);
        self.output.write_all(&self.block)
    }
}

fn add_option(block: &mut Vec<u8>, code: u16, value: &[u8]) {
    // The longest value is a device's name or ours.
    let len = value.len().min(usize::from(u16::MAX));
    block.extend(code.to_le_bytes());
    block.extend((len as u16).to_le_bytes());
    block.extend(value.iter().take(len));
    pad(block);
}

/// The upper half first, as the format wants it.
fn add_time(block: &mut Vec<u8>, nanos: u64) {
    block.extend(((nanos >> 32) as u32).to_le_bytes());
    block.extend((nanos as u32).to_le_bytes());
}

/// To a multiple of four octets.
fn pad(block: &mut Vec<u8>) {
    block.resize(block.len().next_multiple_of(4), 0);
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
