//! Classic BPF: packet filters as `tcpdump` compiles them, run without trusting them.
//!
//! McCanne and Jacobson, *The BSD Packet Filter* (USENIX 1993). A program is a list of instructions for a
//! machine with an accumulator, an index register and sixteen words of memory; it returns how many bytes of a
//! frame to keep, none if the frame is not wanted. What is read outside of the frame rejects it.
//!
//! Jumps go forward, but for those of `protochain`, which follows a chain of headers in a loop. A jump back
//! is taken at most once for each byte of a frame, so every program ends; one that goes on rejects the frame.
//! Loads from the highest addresses do not read the frame but what Linux knows of it (`SKF_AD_OFF`): which
//! interface it passes, and in which direction.

use core::fmt;

use crate::capture::{Filter, Tapped};

/// One instruction, as `struct bpf_insn` and `struct sock_filter` have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// Class, size, mode or operation.
    pub code: u16,
    /// Instructions to pass over if the condition holds.
    pub jt: u8,
    /// Instructions to pass over if it does not.
    pub jf: u8,
    /// The constant.
    pub k: u32,
}

/// A program that has been checked: it ends on every frame, and reads nothing but the frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    operations: Box<[Operation]>,
    instructions: Box<[Instruction]>,
}

/// The reason why a list of instructions is no program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramError {
    /// None, or more than 4096.
    Length(usize),
    /// The instruction at this place does not exist, or divides by zero, shifts too far or names a word of
    /// memory that is not there.
    Instruction(usize),
    /// The jump at this place leaves the program.
    Jump(usize),
    /// The last instruction does not return.
    NoEnd,
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(len) => {
                write!(f, "a filter of {len} instructions; expected 1 to {INSTRUCTIONS_MAX}")
            }
            Self::Instruction(at) => write!(f, "instruction {at} of the filter makes no sense"),
            Self::Jump(at) => write!(f, "the jump at {at} leaves the filter"),
            Self::NoEnd => f.write_str("the filter does not end in a return"),
        }
    }
}

impl core::error::Error for ProgramError {}

/// The largest number of instructions, which is the Linux kernel's (`BPF_MAXINSNS`).
const INSTRUCTIONS_MAX: usize = 4096;

/// The code of an instruction that returns a constant: `BPF_RET | BPF_K`.
const RETURN: u16 = 0x06;

/// Words of memory (`BPF_MEMWORDS`): a power of two.
const MEMORY_WORDS: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Load(Size, Where),
    /// Four times the low half of a byte: the length of an IPv4 header.
    LoadHeaderLength(u32),
    Accumulator(Source),
    Index(Source),
    AccumulatorAbout(About),
    IndexLength,
    Store(Slot),
    StoreIndex(Slot),
    Arithmetic(Arithmetic, Operand),
    Negate,
    Jump(u32),
    JumpBack(u32),
    Branch(Condition, Operand, u8, u8),
    Return(u32),
    ReturnAccumulator,
    AccumulatorToIndex,
    IndexToAccumulator,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Word,
    Half,
    Byte,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Where {
    At(u32),
    FromIndex(u32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Constant(u32),
    Memory(Slot),
}

/// A property of a frame, other than its bytes, that a program can load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// Bytes on the wire.
    Length,
    /// The kernel's number for the interface, once it is known ([`Program::on_interface`]).
    Interface,
    /// `PACKET_OUTGOING` if the frame is sent, else `PACKET_HOST`.
    Direction,
}

/// A word of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot(u8);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operand {
    Constant(u32),
    Index,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Equal,
    Greater,
    AtLeast,
    AnyBit,
}

impl Program {
    /// Checks a list of instructions.
    ///
    /// # Errors
    /// [`ProgramError`]
    pub fn new(instructions: &[Instruction]) -> Result<Self, ProgramError> {
        let len = instructions.len();
        if !(1..=INSTRUCTIONS_MAX).contains(&len) {
            return Err(ProgramError::Length(len));
        }
        let decoded = instructions.iter().enumerate().map(|(at, &instruction)| {
            let operation = decode(instruction).ok_or(ProgramError::Instruction(at))?;
            // Those that are left to pass over.
            let left = (len - 1 - at) as u32;
            let inside = match operation {
                Operation::Jump(by) => by < left,
                Operation::JumpBack(by) => by as usize <= at + 1,
                Operation::Branch(_, _, yes, no) => u32::from(yes.max(no)) < left,
                _ => true,
            };
            if inside { Ok(operation) } else { Err(ProgramError::Jump(at)) }
        });
        let operations: Box<[Operation]> = decoded.collect::<Result<_, _>>()?;
        match operations.last() {
            Some(Operation::Return(_) | Operation::ReturnAccumulator) => {
                Ok(Self { operations, instructions: instructions.into() })
            }
            _ => Err(ProgramError::NoEnd),
        }
    }

    /// Returns the instructions, for a kernel that runs the program too.
    #[must_use]
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Returns whether a kernel would run the program: Linux takes none that jumps back.
    #[must_use]
    pub fn suits_kernel(&self) -> bool {
        !self.operations.iter().any(|operation| matches!(operation, Operation::JumpBack(_)))
    }

    /// Returns the program for an interface that has this number in the kernel. Any other rejects frames
    /// when it asks for the number.
    #[must_use]
    pub fn on_interface(mut self, number: u32) -> Self {
        for operation in &mut self.operations {
            if *operation == Operation::AccumulatorAbout(About::Interface) {
                *operation = Operation::Accumulator(Source::Constant(number));
            }
        }
        self
    }

    /// Returns a copy of the program that keeps at most `bytes` of a frame, and at least one.
    #[must_use]
    pub fn cut_to(&self, bytes: u32) -> Self {
        let bytes = bytes.max(1);
        let cut = |&instruction| match instruction {
            Instruction { code: RETURN, k, .. } => Instruction { k: k.min(bytes), ..instruction },
            _ => instruction,
        };
        let instructions: Box<[Instruction]> = self.instructions.iter().map(cut).collect();
        // No constant was made one that is not allowed.
        Self::new(&instructions).unwrap_or_else(|_| self.clone())
    }

    /// Returns a program that keeps at most `bytes` of every frame.
    #[must_use]
    pub fn everything(bytes: u32) -> Self {
        let instructions = [Instruction { code: RETURN, jt: 0, jf: 0, k: bytes }].into();
        Self { operations: [Operation::Return(bytes)].into(), instructions }
    }

    /// Runs it on a frame that had `original_bytes` on the wire: the bytes to keep (which may be more than
    /// there are), zero if the frame is not wanted.
    #[must_use]
    pub fn run(&self, frame: &[u8], original_bytes: usize) -> u32 {
        self.judge(frame, original_bytes, false)
    }

    fn judge(&self, frame: &[u8], original_bytes: usize, outbound: bool) -> u32 {
        // What is read outside of the frame, or divided by zero, rejects it.
        self.result(frame, Seldom { len: original_bytes as u32, outbound, loops_left: frame.len() })
            .unwrap_or(0)
    }

    fn result(&self, frame: &[u8], mut seldom: Seldom) -> Option<u32> {
        let (mut a, mut x, mut memory) = (0_u32, 0_u32, [0_u32; MEMORY_WORDS]);
        let mut next = 0;
        loop {
            // Checked: jumps stay inside, and the last one returns.
            let operation = *self.operations.get(next)?;
            next += 1;
            match operation {
                Operation::Load(size, place) => a = load(frame, size, place, x)?,
                Operation::Branch(condition, operand, yes, no) => {
                    let holds = condition.holds(a, operand.value(x));
                    next += usize::from(if holds { yes } else { no });
                }
                Operation::Return(bytes) => return Some(bytes),
                Operation::LoadHeaderLength(at) => {
                    x = 4 * (load(frame, Size::Byte, Where::At(at), 0)? & 0xf);
                }
                Operation::Accumulator(source) => a = source.value(&memory),
                Operation::Index(source) => x = source.value(&memory),
                Operation::AccumulatorAbout(about) => a = seldom.value(about)?,
                Operation::IndexLength => x = seldom.len,
                Operation::Store(slot) => *slot.of_mut(&mut memory) = a,
                Operation::StoreIndex(slot) => *slot.of_mut(&mut memory) = x,
                Operation::Arithmetic(what, operand) => a = what.apply(a, operand.value(x))?,
                Operation::Negate => a = a.wrapping_neg(),
                Operation::Jump(by) => next += by as usize,
                Operation::JumpBack(by) => {
                    seldom.count_loop()?;
                    next = next.checked_sub(by as usize)?;
                }
                Operation::ReturnAccumulator => return Some(a),
                Operation::AccumulatorToIndex => x = a,
                Operation::IndexToAccumulator => a = x,
            }
        }
    }
}

impl Filter for Program {
    fn keep(&mut self, frame: &Tapped<'_>) -> usize {
        self.judge(frame.bytes, frame.original_bytes(), frame.is_outbound()) as usize
    }
}

#[inline]
fn load(frame: &[u8], size: Size, place: Where, x: u32) -> Option<u32> {
    let at = match place {
        Where::At(at) => at,
        Where::FromIndex(at) => x.checked_add(at)?,
    };
    let bytes = frame.get(at as usize..)?;
    Some(match size {
        Size::Word => u32::from_be_bytes(*bytes.first_chunk()?),
        Size::Half => u16::from_be_bytes(*bytes.first_chunk()?).into(),
        Size::Byte => (*bytes.first()?).into(),
    })
}

impl Slot {
    fn of(self, memory: &[u32; MEMORY_WORDS]) -> u32 {
        memory[usize::from(self.0) % MEMORY_WORDS]
    }

    fn of_mut(self, memory: &mut [u32; MEMORY_WORDS]) -> &mut u32 {
        &mut memory[usize::from(self.0) % MEMORY_WORDS]
    }
}

impl Source {
    fn value(self, memory: &[u32; MEMORY_WORDS]) -> u32 {
        match self {
            Self::Constant(k) => k,
            Self::Memory(slot) => slot.of(memory),
        }
    }
}

/// Parts of a run that few instructions use. They stay out of the registers of the others.
struct Seldom {
    /// Bytes of the frame on the wire.
    len: u32,
    outbound: bool,
    /// Jumps back that the program may still take.
    loops_left: usize,
}

impl Seldom {
    #[cold]
    #[inline(never)]
    fn value(&self, about: About) -> Option<u32> {
        const PACKET_HOST: u32 = 0;
        const PACKET_OUTGOING: u32 = 4;
        match about {
            About::Length => Some(self.len),
            About::Direction => Some(if self.outbound { PACKET_OUTGOING } else { PACKET_HOST }),
            About::Interface => None,
        }
    }

    /// Counts a jump back. Returns `None` if there have been enough.
    #[cold]
    #[inline(never)]
    fn count_loop(&mut self) -> Option<()> {
        self.loops_left = self.loops_left.checked_sub(1)?;
        Some(())
    }
}

impl Operand {
    const fn value(self, x: u32) -> u32 {
        match self {
            Self::Constant(k) => k,
            Self::Index => x,
        }
    }
}

impl Condition {
    const fn holds(self, a: u32, b: u32) -> bool {
        match self {
            Self::Equal => a == b,
            Self::Greater => a > b,
            Self::AtLeast => a >= b,
            Self::AnyBit => a & b != 0,
        }
    }
}

impl Arithmetic {
    fn apply(self, a: u32, b: u32) -> Option<u32> {
        Some(match self {
            Self::Add => a.wrapping_add(b),
            Self::Subtract => a.wrapping_sub(b),
            Self::Multiply => a.wrapping_mul(b),
            Self::Divide => a.checked_div(b)?,
            Self::Remainder => a.checked_rem(b)?,
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
            Self::ShiftLeft => a.checked_shl(b).unwrap_or(0),
            Self::ShiftRight => a.checked_shr(b).unwrap_or(0),
        })
    }
}

/// Decodes an instruction (linux/filter.h, pcap/bpf.h). Returns `None` if there is no such instruction, or
/// if it could fail whatever the frame.
fn decode(Instruction { code, jt, jf, k }: Instruction) -> Option<Operation> {
    const CLASS: u16 = 0x07;
    // The eighth bit chooses between constant and index register; what is above nine bits does not exist.
    let operand = if code & 0x08 == 0 { Operand::Constant(k) } else { Operand::Index };
    Some(match (code & CLASS, code & !CLASS) {
        (0x00, mode) => decode_load(mode, k)?,
        (0x01, 0x00) => Operation::Index(Source::Constant(k)),
        (0x01, 0x60) => Operation::Index(Source::Memory(slot(k)?)),
        (0x01, 0x80) => Operation::IndexLength,
        (0x01, 0xb0) => Operation::LoadHeaderLength(k),
        (0x02, 0x00) => Operation::Store(slot(k)?),
        (0x03, 0x00) => Operation::StoreIndex(slot(k)?),
        (0x04, 0x80) => Operation::Negate,
        (0x04, operation) => Operation::Arithmetic(decode_arithmetic(operation & !0x08, operand)?, operand),
        // A distance that is negative as a signed number goes back.
        (0x05, 0x00) if k.cast_signed() < 0 => Operation::JumpBack(k.wrapping_neg()),
        (0x05, 0x00) => Operation::Jump(k),
        (0x05, condition) => {
            let condition = match condition & !0x08 {
                0x10 => Condition::Equal,
                0x20 => Condition::Greater,
                0x30 => Condition::AtLeast,
                0x40 => Condition::AnyBit,
                _ => return None,
            };
            Operation::Branch(condition, operand, jt, jf)
        }
        (0x06, 0x00) => Operation::Return(k),
        (0x06, 0x10) => Operation::ReturnAccumulator,
        (0x07, 0x00) => Operation::AccumulatorToIndex,
        (0x07, 0x80) => Operation::IndexToAccumulator,
        _ => return None,
    })
}

/// `SKF_AD_OFF`, and what lies there (linux/filter.h).
const ANCILLARY: u32 = (-0x1000_i32).cast_unsigned();
const DIRECTION: u32 = 4;
const INTERFACE: u32 = 8;

fn decode_load(mode: u16, k: u32) -> Option<Operation> {
    let size = match mode & 0x18 {
        0x00 => Size::Word,
        0x08 => Size::Half,
        0x10 => Size::Byte,
        _ => return None,
    };
    Some(match (mode & !0x18, size) {
        (0x20, _) if k == ANCILLARY + DIRECTION => Operation::AccumulatorAbout(About::Direction),
        (0x20, _) if k == ANCILLARY + INTERFACE => Operation::AccumulatorAbout(About::Interface),
        (0x20, size) => Operation::Load(size, Where::At(k)),
        (0x40, size) => Operation::Load(size, Where::FromIndex(k)),
        (0x00, Size::Word) => Operation::Accumulator(Source::Constant(k)),
        (0x60, Size::Word) => Operation::Accumulator(Source::Memory(slot(k)?)),
        (0x80, Size::Word) => Operation::AccumulatorAbout(About::Length),
        _ => return None,
    })
}

fn decode_arithmetic(operation: u16, operand: Operand) -> Option<Arithmetic> {
    let what = match operation {
        0x00 => Arithmetic::Add,
        0x10 => Arithmetic::Subtract,
        0x20 => Arithmetic::Multiply,
        0x30 => Arithmetic::Divide,
        0x40 => Arithmetic::Or,
        0x50 => Arithmetic::And,
        0x60 => Arithmetic::ShiftLeft,
        0x70 => Arithmetic::ShiftRight,
        0x90 => Arithmetic::Remainder,
        0xa0 => Arithmetic::Xor,
        _ => return None,
    };
    let sound = match (what, operand) {
        (Arithmetic::Divide | Arithmetic::Remainder, Operand::Constant(k)) => k != 0,
        (Arithmetic::ShiftLeft | Arithmetic::ShiftRight, Operand::Constant(k)) => k < u32::BITS,
        _ => true,
    };
    sound.then_some(what)
}

fn slot(k: u32) -> Option<Slot> {
    u8::try_from(k).ok().filter(|&k| usize::from(k) < MEMORY_WORDS).map(Slot)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn program(list: &[(u16, u8, u8, u32)]) -> Result<Program, ProgramError> {
        let list: Vec<_> = list.iter().map(|&(code, jt, jf, k)| Instruction { code, jt, jf, k }).collect();
        Program::new(&list)
    }

    fn run(program: &Program, frame: &[u8]) -> u32 {
        program.run(frame, frame.len())
    }

    /// The program that `tcpdump -dd udp port 9` prints.
    const UDP_PORT_9: [(u16, u8, u8, u32); 20] = [
        (0x28, 0, 0, 0x0000_000c),
        (0x15, 0, 6, 0x0000_86dd),
        (0x30, 0, 0, 0x0000_0014),
        (0x15, 0, 15, 0x0000_0011),
        (0x28, 0, 0, 0x0000_0036),
        (0x15, 12, 0, 0x0000_0009),
        (0x28, 0, 0, 0x0000_0038),
        (0x15, 10, 11, 0x0000_0009),
        (0x15, 0, 10, 0x0000_0800),
        (0x30, 0, 0, 0x0000_0017),
        (0x15, 0, 8, 0x0000_0011),
        (0x28, 0, 0, 0x0000_0014),
        (0x45, 6, 0, 0x0000_1fff),
        (0xb1, 0, 0, 0x0000_000e),
        (0x48, 0, 0, 0x0000_000e),
        (0x15, 2, 0, 0x0000_0009),
        (0x48, 0, 0, 0x0000_0010),
        (0x15, 0, 1, 0x0000_0009),
        (0x06, 0, 0, 0x0004_0000),
        (0x06, 0, 0, 0x0000_0000),
    ];

    fn udp(header_words: u8, fragment: u16, to: u16) -> Vec<u8> {
        let mut frame = vec![0; 14 + 4 * usize::from(header_words) + 8];
        frame[12..14].copy_from_slice(&0x0800_u16.to_be_bytes());
        frame[14] = 0x40 | header_words;
        frame[20..22].copy_from_slice(&fragment.to_be_bytes());
        frame[23] = 17;
        let ports = frame.len() - 8;
        frame[ports + 2..ports + 4].copy_from_slice(&to.to_be_bytes());
        frame
    }

    #[test]
    fn a_filter_of_tcpdump_finds_the_port_behind_options_and_not_in_fragments() {
        let filter = program(&UDP_PORT_9).unwrap();
        assert_eq!(run(&filter, &udp(5, 0, 9)), 0x40000);
        assert_eq!(run(&filter, &udp(15, 0, 9)), 0x40000);
        assert_eq!(run(&filter, &udp(5, 0, 10)), 0);
        assert_eq!(run(&filter, &udp(5, 185, 9)), 0, "not the first fragment");
        let cut = udp(5, 0, 9);
        assert!((0..38).all(|len| run(&filter, &cut[..len]) == 0), "what is read outside rejects");
        assert_eq!(run(&filter, &cut[..38]), 0x40000);
    }

    #[test]
    fn a_program_can_be_made_to_keep_less() {
        let filter = program(&UDP_PORT_9).unwrap().cut_to(96);
        assert_eq!((run(&filter, &udp(5, 0, 9)), run(&filter, &udp(5, 0, 10))), (96, 0));
        assert_eq!(filter, filter.cut_to(1000));
        assert_eq!(Program::everything(96), program(&[(0x06, 0, 0, 96)]).unwrap());
    }

    #[test]
    fn a_program_that_could_go_wrong_is_refused() {
        let ret = (0x06, 0, 0, 1);
        assert_eq!(program(&[]), Err(ProgramError::Length(0)));
        assert_eq!(program(&[ret; 4097]), Err(ProgramError::Length(4097)));
        assert_eq!(program(&[(0x28, 0, 0, 12)]), Err(ProgramError::NoEnd));
        assert_eq!(program(&[(0x05, 0, 0, 1), ret]), Err(ProgramError::Jump(0)));
        let back = |by: u32| program(&[ret, (0x05, 0, 0, by.wrapping_neg()), ret]);
        assert_eq!(back(3), Err(ProgramError::Jump(1)));
        assert!(back(2).is_ok_and(|program| !program.suits_kernel()));
        assert_eq!(program(&[(0x15, 0, 1, 0), ret]), Err(ProgramError::Jump(0)));
        let divide = (0x34, 0, 0, 0);
        let shift = (0x64, 0, 0, 32);
        let store = (0x02, 0, 0, 16);
        for bad in [divide, shift, store, (0x00ff, 0, 0, 0), (0x18, 0, 0, 0), (0x0120, 0, 0, 0)] {
            assert_eq!(program(&[bad, ret]), Err(ProgramError::Instruction(0)), "{bad:x?}");
        }
        assert!(program(&[(0x05, 0, 0, 0), ret]).is_ok());
    }

    #[test]
    fn a_loop_ends_with_the_frame() {
        // X := X + 4 for as long as the byte there is not 9; it keeps what lies before that.
        let search = [
            (0x01, 0, 0, 0),
            (0x50, 0, 0, 0),
            (0x15, 4, 0, 9),
            (0x87, 0, 0, 0),
            (0x04, 0, 0, 4),
            (0x07, 0, 0, 0),
            (0x05, 0, 0, 6_u32.wrapping_neg()),
            (0x87, 0, 0, 0),
            (0x16, 0, 0, 0),
        ];
        let search = program(&search).unwrap();
        let mut frame = [0; 60];
        assert_eq!(run(&search, &frame), 0, "what is read behind the frame rejects it");
        frame[40] = 9;
        assert_eq!(run(&search, &frame), 40);
        let for_ever = program(&[(0x05, 0, 0, u32::MAX), (0x06, 0, 0, 1)]).unwrap();
        assert_eq!(run(&for_ever, &frame), 0);
    }

    #[test]
    fn interface_and_direction_are_those_of_the_frame() {
        let load = |what| program(&[(0x20, 0, 0, ANCILLARY + what), (0x16, 0, 0, 0)]).unwrap();
        assert_eq!([false, true].map(|sent| load(DIRECTION).judge(&[0; 60], 60, sent)), [0, 4]);
        let interface = load(INTERFACE);
        assert_eq!((run(&interface, &[0; 60]), run(&interface.on_interface(7), &[0; 60])), (0, 7));
    }

    #[test]
    fn memory_arithmetic_and_length() {
        // A := length; M[3] := A; A := 7; X := M[3]; A := A * X; A := A % 100; return A.
        let list = [
            (0x80, 0, 0, 0),
            (0x02, 0, 0, 3),
            (0x00, 0, 0, 7),
            (0x61, 0, 0, 3),
            (0x2c, 0, 0, 0),
            (0x94, 0, 0, 100),
            (0x16, 0, 0, 0),
        ];
        assert_eq!(run(&program(&list).unwrap(), &[0; 60]), 20);
        // Divided by an index register of zero.
        let by_zero = [(0x00, 0, 0, 7), (0x3c, 0, 0, 0), (0x06, 0, 0, 1)];
        assert_eq!(run(&program(&by_zero).unwrap(), &[0; 60]), 0);
    }

    fn instruction() -> impl Strategy<Value = Instruction> {
        let k = prop_oneof![0..64_u32, any::<u32>(), Just(u32::MAX)];
        (0..0x100_u16, 0..8_u8, 0..8_u8, k).prop_map(|(code, jt, jf, k)| Instruction { code, jt, jf, k })
    }

    proptest! {
        /// Every program that passes the check ends, without a panic, on any frame.
        #[test]
        fn a_checked_program_ends(
            list in prop::collection::vec(instruction(), 0..12),
            frame in prop::collection::vec(any::<u8>(), 0..80),
        ) {
            // Instructions that do not exist are left out, so that many lists pass.
            let mut list: Vec<_> = list.into_iter().filter(|&i| decode(i).is_some()).collect();
            list.push(Instruction { code: 0x16, jt: 0, jf: 0, k: 0 });
            if let Ok(program) = Program::new(&list) {
                let _ = program.run(&frame, frame.len());
                prop_assert_eq!(program.instructions(), &list[..]);
            }
        }
    }
}
