//! The streams of a program, each with the program's own state for it.

use evenkeel::raw::socket::TcpStream;
use std::collections::VecDeque;

/// A table of streams by number, with a queue of those that have more to do than one step allows.
///
/// Numbers are given lowest first, so the table has no more places than the maximum number of streams at a
/// time.
#[derive(Debug)]
pub(super) struct Streams<T> {
    places: Vec<Option<Held<T>>>,
    busy: VecDeque<TcpStream>,
    open: usize,
}

#[derive(Debug)]
struct Held<T> {
    what: T,
    /// Whether the stream is in the busy queue.
    busy: bool,
}

impl<T> Default for Streams<T> {
    fn default() -> Self {
        Self { places: Vec::new(), busy: VecDeque::new(), open: 0 }
    }
}

impl<T> Streams<T> {
    pub(super) fn insert(&mut self, stream: TcpStream, what: T) {
        let place = stream.fd().0 as usize;
        if place >= self.places.len() {
            self.places.resize_with(place + 1, || None);
        }
        if let Some(slot) = self.places.get_mut(place) {
            let before = slot.replace(Held { what, busy: false });
            self.open += usize::from(before.is_none());
        }
    }

    pub(super) fn get_mut(&mut self, stream: TcpStream) -> Option<&mut T> {
        self.places.get_mut(stream.fd().0 as usize)?.as_mut().map(|held| &mut held.what)
    }

    pub(super) fn remove(&mut self, stream: TcpStream) -> Option<T> {
        let held = self.places.get_mut(stream.fd().0 as usize)?.take()?;
        self.open -= 1;
        Some(held.what)
    }

    /// Returns the number of streams.
    pub(super) const fn len(&self) -> usize {
        self.open
    }

    /// Queues a stream that has more to do for another turn.
    pub(super) fn put_back(&mut self, stream: TcpStream) {
        let Some(Some(held)) = self.places.get_mut(stream.fd().0 as usize) else { return };
        if !core::mem::replace(&mut held.busy, true) {
            self.busy.push_back(stream);
        }
    }

    /// Dequeues the stream whose turn is next.
    pub(super) fn next_busy(&mut self) -> Option<TcpStream> {
        loop {
            let stream = self.busy.pop_front()?;
            // The stream may have been removed, or its number may belong to another stream.
            if let Some(Some(held)) = self.places.get_mut(stream.fd().0 as usize)
                && core::mem::take(&mut held.busy)
            {
                return Some(stream);
            }
        }
    }

    pub(super) fn has_busy(&self) -> bool {
        !self.busy.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel::raw::socket::Fd;

    #[test]
    fn each_is_busy_once_and_those_gone_are_not() {
        let mut streams = Streams::default();
        for number in [3, 1, 2] {
            streams.insert(TcpStream::from(Fd(number)), number);
        }
        for number in [1, 3, 1, 1, 2] {
            streams.put_back(TcpStream::from(Fd(number)));
        }
        assert_eq!(
            (streams.remove(TcpStream::from(Fd(3))), streams.remove(TcpStream::from(Fd(3))), streams.len()),
            (Some(3), None, 2)
        );
        assert_eq!(streams.next_busy(), Some(TcpStream::from(Fd(1))));
        streams.put_back(TcpStream::from(Fd(1)));
        let left: Vec<_> = core::iter::from_fn(|| streams.next_busy()).collect();
        assert_eq!(left, [TcpStream::from(Fd(2)), TcpStream::from(Fd(1))]);
        assert!(!streams.has_busy() && streams.get_mut(TcpStream::from(Fd(2))) == Some(&mut 2));
    }
}
