//! How far apart events are.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Counts events, and remembers the shortest and the longest time between two. Of one writer, which
/// may be an interrupt handler.
#[derive(Debug)]
pub struct Watch {
    last: AtomicU32,
    shortest: AtomicU32,
    longest: AtomicU32,
    count: AtomicU32,
    /// Whether the last time means something.
    is_timed: AtomicBool,
}

impl Watch {
    /// At rest.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            last: AtomicU32::new(0),
            shortest: AtomicU32::new(u32::MAX),
            longest: AtomicU32::new(0),
            count: AtomicU32::new(0),
            is_timed: AtomicBool::new(false),
        }
    }

    /// Forgets everything; times are taken from now on, by a counter that may wrap.
    pub fn begin(&self, now: u32) {
        self.reset();
        self.last.store(now, Ordering::Relaxed);
        self.is_timed.store(true, Ordering::Relaxed);
    }

    /// Forgets everything; times are taken from the next event on.
    pub fn reset(&self) {
        self.is_timed.store(false, Ordering::Relaxed);
        self.shortest.store(u32::MAX, Ordering::Relaxed);
        self.longest.store(0, Ordering::Relaxed);
        self.count.store(0, Ordering::Relaxed);
    }

    /// An event.
    pub fn event(&self, now: u32) {
        // Loads and stores: the smallest cores have nothing else.
        let between = now.wrapping_sub(self.last.load(Ordering::Relaxed));
        self.last.store(now, Ordering::Relaxed);
        let count = self.count.load(Ordering::Relaxed);
        self.count.store(count.wrapping_add(1), Ordering::Relaxed);
        if !self.is_timed.load(Ordering::Relaxed) {
            self.is_timed.store(true, Ordering::Relaxed);
            return;
        }
        if between < self.shortest.load(Ordering::Relaxed) {
            self.shortest.store(between, Ordering::Relaxed);
        }
        if between > self.longest.load(Ordering::Relaxed) {
            self.longest.store(between, Ordering::Relaxed);
        }
    }

    /// The shortest time between two events; `u32::MAX` if there was none.
    #[must_use]
    pub fn shortest(&self) -> u32 {
        self.shortest.load(Ordering::Relaxed)
    }

    /// The longest time between two events.
    #[must_use]
    pub fn longest(&self) -> u32 {
        self.longest.load(Ordering::Relaxed)
    }

    /// Events since the [start](Self::begin).
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_taken_over_the_end_of_the_counter() {
        let watch = Watch::new();
        watch.event(12);
        watch.event(13);
        assert_eq!(
            (watch.shortest(), watch.longest(), watch.count()),
            (1, 1, 2)
        );
        watch.reset();
        watch.event(40);
        watch.event(47);
        assert_eq!(
            (watch.shortest(), watch.longest(), watch.count()),
            (7, 7, 2)
        );
        watch.begin(u32::MAX - 4);
        assert_eq!(
            (watch.shortest(), watch.longest(), watch.count()),
            (u32::MAX, 0, 0)
        );
        watch.event(5);
        watch.event(8);
        watch.event(28);
        assert_eq!(
            (watch.shortest(), watch.longest(), watch.count()),
            (3, 20, 3)
        );
    }
}
