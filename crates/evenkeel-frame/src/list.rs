//! A list of returned items. Any thread may push to it; one thread takes all items at once.
//!
//! Items are never removed one by one, so a push needs only a compare and swap of the head. It needs no
//! counter against a head that has been there before (ABA): a head that is there again is the first item
//! again.
//!
//! After a push the pushing thread may touch neither list nor link, because their owner may have freed them.
//! So the push reaches them through raw pointers only. A reference in an argument would promise that its
//! target lives until the call returns.

use core::mem::MaybeUninit;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// A place in the list, and who is in it.
pub(crate) struct Link<T> {
    item: MaybeUninit<T>,
    next: *mut Self,
}

impl<T> Link<T> {
    pub(crate) const fn new() -> Self {
        Self { item: MaybeUninit::uninit(), next: ptr::null_mut() }
    }

    /// Stands in the place of the first when the list is closed. Nothing is ever at that address.
    const CLOSED: *mut Self = ptr::dangling_mut();
}

/// On cache lines of its own: any thread writes here. Processors fetch them in pairs.
#[repr(align(128))]
pub(crate) struct List<T> {
    head: AtomicPtr<Link<T>>,
    /// Counted before it is in the list, so never less than there are in it.
    len: AtomicUsize,
}

impl<T> List<T> {
    pub(crate) const fn new() -> Self {
        Self { head: AtomicPtr::new(ptr::null_mut()), len: AtomicUsize::new(0) }
    }

    /// Returns the number of items in the list. It may include an item that another thread is about to
    /// push.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Moves `*item` into the list. False if the list is closed: then the item is where it was.
    ///
    /// # Safety
    /// `list`, `link` and `item` are there until the item is in the list, and nobody else uses the link until
    /// it has been taken out.
    pub(crate) unsafe fn push(list: *const Self, link: *mut Link<T>, item: *const T) -> bool {
        // SAFETY: the list is there.
        let (head, len) = unsafe { (&raw const (*list).head, &raw const (*list).len) };
        // SAFETY: the list is there, and the link this call's; the item is used in one place only, because
        // nobody looks at a link that is not in the list.
        unsafe {
            (*len).fetch_add(1, Ordering::Relaxed);
            (*link).item.write(ptr::read(item));
        }
        // SAFETY: the list is there.
        let mut first = unsafe { (*head).load(Ordering::Relaxed) };
        while first != Link::CLOSED {
            // SAFETY: the link is this call's.
            unsafe { (*link).next = first };
            // SAFETY: the list is there. What was done to the item happens before it is taken.
            match unsafe { (*head).compare_exchange_weak(first, link, Ordering::Release, Ordering::Relaxed) }
            {
                Ok(_) => return true,
                Err(now) => first = now,
            }
        }
        false
    }

    /// Takes all.
    ///
    /// # Safety
    /// Links that have been pushed are there until they have been taken out, and the list is not closed.
    pub(crate) unsafe fn take_all(&self) -> Taken<T> {
        if self.head.load(Ordering::Relaxed).is_null() {
            return Taken { next: ptr::null_mut() };
        }
        let taken = Taken { next: self.head.swap(ptr::null_mut(), Ordering::Acquire) };
        self.len.fetch_sub(taken.len(), Ordering::Relaxed);
        taken
    }

    /// Takes all, and lets nobody push any more.
    ///
    /// # Safety
    /// As for [`List::take_all`].
    pub(crate) unsafe fn close(&self) -> Taken<T> {
        Taken { next: self.head.swap(Link::CLOSED, Ordering::Acquire) }
    }
}

/// The items that were taken from a list, the last one first.
pub(crate) struct Taken<T> {
    next: *mut Link<T>,
}

impl<T> Taken<T> {
    fn len(&self) -> usize {
        // SAFETY: null, or a link that was pushed, and which this value has alone.
        let link_at = |at: *mut Link<T>| unsafe { at.as_ref() };
        core::iter::successors(link_at(self.next), |link| link_at(link.next)).count()
    }
}

impl<T> Iterator for Taken<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        // SAFETY: null, or a link that was pushed, and which this value has alone.
        let link = unsafe { self.next.as_ref() }?;
        self.next = link.next;
        // SAFETY: written when it was pushed, and read once: this value has gone on.
        Some(unsafe { link.item.assume_init_read() })
    }
}

impl<T> Drop for Taken<T> {
    fn drop(&mut self) {
        self.for_each(drop);
    }
}
