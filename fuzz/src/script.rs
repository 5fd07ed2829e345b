//! A reader of scripts. At its end a script reads as zeros.

/// The bytes not read yet.
#[derive(Debug, Clone, Copy)]
pub struct Script<'a>(pub &'a [u8]);

impl<'a> Script<'a> {
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    pub fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    pub fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Returns the next `len` bytes of the script, or the rest if it is shorter.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::from(self.byte()) % from.len()]
    }
}
