//! Sorting in place.

use core::cmp::Ordering;

/// Sorts by `compare`; the order of equals is not defined.
///
/// On boards by heaps: the sort of `core` takes some kilobytes of flash for each type and order.
pub(crate) fn sort_unstable_by<T: Copy>(
    items: &mut [T],
    mut compare: impl FnMut(&T, &T) -> Ordering,
) {
    if cfg!(target_os = "none") {
        heap_sort(items, &mut |a, b| compare(a, b).is_lt());
    } else {
        items.sort_unstable_by(compare);
    }
}

/// Time n log n, no memory.
fn heap_sort<T: Copy>(items: &mut [T], is_less: &mut dyn FnMut(&T, &T) -> bool) {
    for root in (0..items.len() / 2).rev() {
        sift_down(items, root, is_less);
    }
    for end in (1..items.len()).rev() {
        items.swap(0, end);
        let (heap, _) = items.split_at_mut(end);
        sift_down(heap, 0, is_less);
    }
}

/// Moves the item at `root` down to where both of its children are no larger.
fn sift_down<T: Copy>(heap: &mut [T], mut root: usize, is_less: &mut dyn FnMut(&T, &T) -> bool) {
    loop {
        let (left, right) = (2 * root + 1, 2 * root + 2);
        let Some(of_left) = heap.get(left) else {
            return;
        };
        let larger = match heap.get(right) {
            Some(of_right) if is_less(of_left, of_right) => right,
            _ => left,
        };
        match (heap.get(root), heap.get(larger)) {
            (Some(parent), Some(child)) if is_less(parent, child) => heap.swap(root, larger),
            _ => return,
        }
        root = larger;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn heaps_sort_as_core_does(mut items: std::vec::Vec<u8>) {
            let mut expected = items.clone();
            expected.sort_unstable();
            heap_sort(&mut items, &mut |a, b| a < b);
            prop_assert_eq!(items, expected);
        }
    }
}
