//! The objects that descriptors refer to, of all processes of a host, with the list of capture queues and
//! the screening queue.

use evenkeel_base::slab::{Lowest, Slab};

use crate::id::{ProcessId, SocketId};
use crate::looks::count_look;
use crate::socket::{Descriptor, ScreenQueue, Socket};

/// All descriptors of a host, by number.
#[derive(Debug)]
pub(crate) struct DescriptorTable {
    descriptors: Slab<Descriptor, Lowest>,
    captures: Vec<SocketId>,
    screen: Option<SocketId>,
}

impl DescriptorTable {
    pub(crate) const fn new() -> Self {
        Self { descriptors: Slab::lowest_first(), captures: Vec::new(), screen: None }
    }

    /// Returns the number that the next descriptor will get.
    pub(crate) fn vacant(&self) -> SocketId {
        SocketId(self.descriptors.vacant())
    }

    /// Puts a descriptor into the first free place.
    pub(crate) fn insert(&mut self, descriptor: Descriptor) -> SocketId {
        let (captures, screens) =
            (matches!(descriptor, Descriptor::Capture(_)), matches!(descriptor, Descriptor::Screen(_)));
        let id = SocketId(self.descriptors.insert(descriptor));
        if captures {
            self.captures.push(id);
        }
        if screens {
            self.screen = Some(id);
        }
        id
    }

    /// Takes a descriptor out; its place is free.
    pub(crate) fn remove(&mut self, id: SocketId) -> Option<Descriptor> {
        let descriptor = self.descriptors.remove(id.0)?;
        self.captures.retain(|&capture| capture != id);
        self.screen = self.screen.filter(|&screen| screen != id);
        Some(descriptor)
    }

    #[inline]
    pub(crate) fn get(&self, id: SocketId) -> Option<&Descriptor> {
        count_look();
        self.descriptors.get(id.0)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: SocketId) -> Option<&mut Descriptor> {
        count_look();
        self.descriptors.get_mut(id.0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (SocketId, &Descriptor)> {
        self.descriptors
            .iter()
            .inspect(|_| count_look())
            .map(|(number, descriptor)| (SocketId(number), descriptor))
    }

    pub(crate) fn of(&self, owner: ProcessId) -> impl Iterator<Item = SocketId> {
        self.iter().filter(move |(_, d)| d.owner() == Some(owner)).map(|(id, _)| id)
    }

    #[inline]
    pub(crate) fn udp(&self, id: SocketId) -> Option<&Socket> {
        if let Descriptor::Udp(socket) = self.get(id)? { Some(socket) } else { None }
    }

    #[inline]
    pub(crate) fn udp_mut(&mut self, id: SocketId) -> Option<&mut Socket> {
        if let Descriptor::Udp(socket) = self.get_mut(id)? { Some(socket) } else { None }
    }

    /// Returns the numbers of the capture queues.
    #[inline]
    pub(crate) fn captures(&self) -> &[SocketId] {
        &self.captures
    }

    /// Returns the number of the screening queue, if a process screens.
    pub(crate) const fn screen_id(&self) -> Option<SocketId> {
        self.screen
    }

    pub(crate) fn screen(&self) -> Option<&ScreenQueue> {
        if let Descriptor::Screen(screen) = self.get(self.screen?)? { Some(screen) } else { None }
    }

    pub(crate) fn screen_mut(&mut self) -> Option<(SocketId, &mut ScreenQueue)> {
        let id = self.screen?;
        if let Descriptor::Screen(screen) = self.get_mut(id)? { Some((id, screen)) } else { None }
    }
}
