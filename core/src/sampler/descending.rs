//! The likeliest tokens in order, without sorting the vocabulary.

/// Ids by descending value, of equals the lower id first.
///
/// One pass over the values collects the next ids into a heap in the caller's scratch, from which
/// they are popped one by one: with `n` values of which the first `k` are asked for this costs
/// O(n + k log n). If more ids qualify than the scratch holds, a further pass collects the next
/// ones once the first are used up. The order is the same for every length of the scratch.
pub(super) struct Descending<'a> {
    values: &'a [f32],
    floor: f32,
    scratch: &'a mut [u32],
    /// `scratch[..waiting]` is a heap with the best at 0; `scratch[waiting..filled]` was handed
    /// out, the latest first.
    waiting: usize,
    filled: usize,
    last: Option<u32>,
    /// Whether ids come after those of the scratch.
    more: bool,
    /// Whether all that was handed out still lies in the scratch.
    whole: bool,
    /// How many of those have been handed out again.
    replayed: usize,
}

impl<'a> Descending<'a> {
    /// Leaves out ids whose value is below `floor`. `scratch` must not be empty, and no value NaN.
    pub(super) fn new(values: &'a [f32], floor: f32, scratch: &'a mut [u32]) -> Self {
        let mut this = Self {
            values,
            floor,
            scratch,
            waiting: 0,
            filled: 0,
            last: None,
            more: false,
            whole: true,
            replayed: 0,
        };
        this.fill();
        this
    }

    /// The next ids will again be those from the first on.
    pub(super) fn restart(&mut self) {
        if self.whole {
            self.replayed = 0;
        } else {
            self.last = None;
            self.whole = true;
            self.fill();
        }
    }

    /// Collects the best ids that come after the last one handed out.
    fn fill(&mut self) {
        let values = self.values;
        let best_first = |a: u32, b: u32| before(values, a, b);
        let worst_first = |a: u32, b: u32| before(values, b, a);
        let mut len = 0;
        self.more = false;
        for (id, value) in (0u32..).zip(values) {
            if *value < self.floor || self.last.is_some_and(|last| !best_first(last, id)) {
                continue;
            }
            if len < self.scratch.len() {
                self.scratch[len] = id;
                len += 1;
            } else {
                if !self.more {
                    self.more = true;
                    heapify(self.scratch, worst_first);
                }
                if best_first(id, self.scratch[0]) {
                    self.scratch[0] = id;
                    sift_down(self.scratch, 0, worst_first);
                }
            }
        }
        heapify(&mut self.scratch[..len], best_first);
        self.waiting = len;
        self.filled = len;
        self.replayed = 0;
    }
}

impl Iterator for Descending<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        if self.replayed < self.filled - self.waiting {
            self.replayed += 1;
            return Some(self.scratch[self.filled - self.replayed]);
        }
        if self.waiting == 0 {
            if !self.more {
                return None;
            }
            self.whole = false;
            self.fill();
        }
        self.waiting = self.waiting.checked_sub(1)?;
        self.scratch.swap(0, self.waiting);
        let values = self.values;
        sift_down(&mut self.scratch[..self.waiting], 0, |a, b| {
            before(values, a, b)
        });
        self.replayed += 1;
        self.last = Some(self.scratch[self.waiting]);
        self.last
    }
}

/// Whether `a` comes before `b`. Both are ids of `values`.
fn before(values: &[f32], a: u32, b: u32) -> bool {
    let (x, y) = (values[a as usize], values[b as usize]);
    x > y || (x == y && a < b)
}

/// Orders `heap` so that no element comes before its parent.
fn heapify(heap: &mut [u32], before: impl Fn(u32, u32) -> bool + Copy) {
    for i in (0..heap.len() / 2).rev() {
        sift_down(heap, i, before);
    }
}

/// Moves the element at `i` down to its place.
fn sift_down(heap: &mut [u32], mut i: usize, before: impl Fn(u32, u32) -> bool) {
    loop {
        let left = 2 * i + 1;
        if left >= heap.len() {
            return;
        }
        let right = left + 1;
        let child = if right < heap.len() && before(heap[right], heap[left]) {
            right
        } else {
            left
        };
        if !before(heap[child], heap[i]) {
            return;
        }
        heap.swap(i, child);
        i = child;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn sorted(values: &[f32], floor: f32) -> Vec<u32> {
        let mut ids: Vec<u32> = (0..values.len() as u32)
            .filter(|id| values[*id as usize] >= floor)
            .collect();
        ids.sort_by(|a, b| values[*b as usize].total_cmp(&values[*a as usize]));
        ids
    }

    proptest! {
        /// A stable full sort is the other implementation; few distinct values make many ties.
        #[test]
        fn equals_a_stable_sort(
            values in prop::collection::vec((0u8..20).prop_map(|x| f32::from(x) - 8.0), 0..80),
            scratch in 1usize..100,
            floor in -9.0f32..3.0,
            first in 0usize..90,
        ) {
            let expected = sorted(&values, floor);
            let mut scratch = vec![0; scratch];
            let mut ids = Descending::new(&values, floor, &mut scratch);
            let part: Vec<u32> = ids.by_ref().take(first).collect();
            prop_assert_eq!(&part[..], &expected[..first.min(expected.len())]);
            ids.restart();
            let again: Vec<u32> = ids.by_ref().take(first / 2).collect();
            prop_assert_eq!(&again[..], &expected[..(first / 2).min(expected.len())]);
            ids.restart();
            prop_assert_eq!(ids.collect::<Vec<_>>(), expected);
        }
    }
}
