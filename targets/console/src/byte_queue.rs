//! Bytes from an interrupt handler to the program.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// Keeps bytes in order, from one writer to one reader; when full, new ones are lost.
#[derive(Debug)]
pub struct ByteQueue<const N: usize> {
    bytes: [AtomicU8; N],
    /// How many have been written and read in all, modulo twice `N`.
    written: AtomicUsize,
    read: AtomicUsize,
}

impl<const N: usize> ByteQueue<N> {
    /// Empty.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bytes: [const { AtomicU8::new(0) }; N],
            written: AtomicUsize::new(0),
            read: AtomicUsize::new(0),
        }
    }

    /// For the writer: `false` if there is no room.
    pub fn push(&self, byte: u8) -> bool {
        let written = self.written.load(Ordering::Relaxed);
        if Self::distance(self.read.load(Ordering::Acquire), written) == N {
            return false;
        }
        if let Some(place) = self.bytes.get(written % N) {
            place.store(byte, Ordering::Relaxed);
        }
        self.written.store(Self::next(written), Ordering::Release);
        true
    }

    /// For the reader.
    pub fn pop(&self) -> Option<u8> {
        let read = self.read.load(Ordering::Relaxed);
        if self.is_empty() {
            return None;
        }
        let byte = self.bytes.get(read % N)?.load(Ordering::Relaxed);
        self.read.store(Self::next(read), Ordering::Release);
        Some(byte)
    }

    /// For the reader: waits for a byte, which goes to the beginning of `buffer`; `idle` is called
    /// until there is one. The answer is the number of bytes, as
    /// [`Read::read`](embedded_io::Read::read) has it: 0 if `buffer` is empty, else 1.
    pub fn read(&self, buffer: &mut [u8], idle: fn()) -> usize {
        let Some(place) = buffer.first_mut() else {
            return 0;
        };
        loop {
            if let Some(byte) = self.pop() {
                *place = byte;
                return 1;
            }
            idle();
        }
    }

    /// Whether there is nothing to read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read.load(Ordering::Relaxed) == self.written.load(Ordering::Acquire)
    }

    fn next(at: usize) -> usize {
        (at + 1) % (2 * N)
    }

    fn distance(from: usize, to: usize) -> usize {
        (to + 2 * N - from) % (2 * N)
    }
}

impl<const N: usize> Default for ByteQueue<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn is_as_a_queue_of_the_standard_library(steps: Vec<Option<u8>>) {
            let queue = ByteQueue::<5>::new();
            let mut model = VecDeque::new();
            for step in steps {
                match step {
                    Some(byte) => {
                        let room = model.len() < 5;
                        if room {
                            model.push_back(byte);
                        }
                        prop_assert_eq!(queue.push(byte), room);
                    }
                    None => prop_assert_eq!(queue.pop(), model.pop_front()),
                }
                prop_assert_eq!(queue.is_empty(), model.is_empty());
            }
        }
    }

    #[test]
    fn a_reader_waits_for_a_byte() {
        static QUEUE: ByteQueue<2> = ByteQueue::new();
        let idle = || assert!(QUEUE.push(b'x') && QUEUE.push(b'y'));
        let mut buffer = [0; 2];
        assert_eq!(QUEUE.read(&mut [], idle), 0);
        assert_eq!((QUEUE.read(&mut buffer, idle), buffer), (1, *b"x\0"));
        // This one is there already.
        assert_eq!((QUEUE.read(&mut buffer, idle), buffer), (1, *b"y\0"));
    }

    #[test]
    fn bytes_of_another_thread_come_in_order() {
        let queue = ByteQueue::<16>::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..10_000_u32 {
                    while !queue.push(n.to_le_bytes()[0]) {
                        std::thread::yield_now();
                    }
                }
            });
            for n in 0..10_000_u32 {
                let byte = loop {
                    match queue.pop() {
                        Some(byte) => break byte,
                        None => std::thread::yield_now(),
                    }
                };
                assert_eq!(byte, n.to_le_bytes()[0]);
            }
        });
    }
}
