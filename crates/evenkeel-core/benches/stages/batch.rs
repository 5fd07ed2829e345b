//! Stages, which are measured, and the batches of frames that they handle.

/// Frames that are measured together.
pub(crate) const BATCH: usize = 64;
/// Bytes of payload of a datagram: an Ethernet frame of 60 bytes over IPv4, the smallest there is.
pub(crate) const PAYLOAD: usize = 18;

/// A piece of work that is measured: `run` handles [`BATCH`] frames, or as many as `frames` says.
pub(crate) trait Batch {
    /// Prepares the state that `run` needs; not measured.
    fn prepare(&mut self) {}
    fn run(&mut self);
    /// Returns the number of frames that `run` handles.
    fn frames(&self) -> usize {
        BATCH
    }
}

impl Batch for Box<dyn Batch> {
    fn prepare(&mut self) {
        (**self).prepare();
    }

    fn run(&mut self) {
        (**self).run();
    }

    fn frames(&self) -> usize {
        (**self).frames()
    }
}

pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) goal_ns: Option<f64>,
    make: Box<dyn Fn() -> Box<dyn Batch>>,
    made: Option<Box<dyn Batch>>,
}

impl Stage {
    pub(crate) fn new<B: Batch + 'static>(name: &'static str, make: impl Fn() -> B + 'static) -> Self {
        Self { name, goal_ns: None, make: Box::new(move || Box::new(make())), made: None }
    }

    /// Returns the batch, which is set up at its first use, so that other stages, under callgrind too, do not
    /// pay for it.
    pub(crate) fn batch(&mut self) -> &mut dyn Batch {
        &mut **self.made.get_or_insert_with(&self.make)
    }

    pub(crate) fn within(self, goal_ns: f64) -> Self {
        Self { goal_ns: Some(goal_ns), ..self }
    }
}

/// A batch that calls a function for one frame after the other, with the frame's index in the batch.
pub(crate) struct Each<F>(F);

impl<F: FnMut(usize)> Batch for Each<F> {
    fn run(&mut self) {
        for frame in 0..BATCH {
            (self.0)(frame);
        }
    }
}

pub(crate) fn each<F: FnMut(usize)>(handle: F) -> Each<F> {
    Each(handle)
}
