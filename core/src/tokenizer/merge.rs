//! SentencePiece's merges: the pair of neighbours with the highest score becomes one symbol, until
//! no pair is a token.

use super::text::{Escaped, Position, Text};

/// Words of scratch for each symbol of the text.
pub(super) const WORDS: usize = 5;

const NONE: u32 = u32::MAX;

/// Symbols in a doubly linked list, the score of each with its right neighbour, and a tournament
/// tree over these scores. A merge changes three scores, each in O(log n).
pub(super) struct Merger<'t, 's> {
    text: Text<'t>,
    start: &'s mut [Position],
    previous: &'s mut [u32],
    next: &'s mut [u32],
    /// See [`rank`]; 0 where the symbol and the one after it do not make a token.
    rank: &'s mut [u32],
    /// Node `i` has the children `2i` and `2i + 1`; from the symbol count on they are the symbols.
    /// A node holds the better symbol of its children's. Node 0 is not used.
    tree: &'s mut [u32],
    #[cfg(test)]
    steps: usize,
}

impl<'t, 's> Merger<'t, 's> {
    /// The symbols of `text` before any merge; `None` if `scratch` holds fewer than [`WORDS`] for
    /// each.
    pub(super) fn new(text: Text<'t>, count: usize, scratch: &'s mut [u32]) -> Option<Self> {
        let (start, scratch) = scratch.split_at_mut_checked(count)?;
        let (previous, scratch) = scratch.split_at_mut_checked(count)?;
        let (next, scratch) = scratch.split_at_mut_checked(count)?;
        let (rank, scratch) = scratch.split_at_mut_checked(count)?;
        let (tree, _) = scratch.split_at_mut_checked(count)?;
        for (i, position) in text.symbols().enumerate().take(count) {
            start[i] = position;
            previous[i] = (i as u32).wrapping_sub(1); // NONE for the first
            next[i] = if i + 1 == count { NONE } else { i as u32 + 1 };
        }
        Some(Self {
            text,
            start,
            previous,
            next,
            rank,
            tree,
            #[cfg(test)]
            steps: 0,
        })
    }

    /// Merges all that can be merged. `score` is that of a token, if the text is one.
    pub(super) fn merge(&mut self, score: &dyn Fn(Escaped<'t>) -> Option<f32>) {
        let count = self.start.len();
        if count < 2 {
            return;
        }
        for i in 0..count {
            self.rank[i] = self.rank_of(i, score);
        }
        for node in (1..count).rev() {
            self.tree[node] = self.better(node);
        }
        loop {
            let left = self.tree[1] as usize;
            if self.rank[left] == 0 {
                return;
            }
            // Only a symbol with a right neighbour has a rank.
            let right = self.next[left] as usize;
            let after = self.next[right];
            self.next[left] = after;
            if let Some(previous) = self.previous.get_mut(after as usize) {
                *previous = left as u32;
            }
            self.set_rank(right, 0);
            self.set_rank(left, self.rank_of(left, score));
            let before = self.previous[left] as usize;
            if before < count {
                self.set_rank(before, self.rank_of(before, score));
            }
        }
    }

    /// The symbols, from left to right.
    pub(super) fn symbols(&self) -> impl Iterator<Item = Escaped<'t>> {
        let first = (!self.start.is_empty()).then_some(0);
        core::iter::successors(first, |i| {
            let next = self.next[*i] as usize;
            (next < self.next.len()).then_some(next)
        })
        .map(|i| self.text.escaped(self.start[i], self.end(i)))
    }

    /// Where symbol `i` ends.
    fn end(&self, i: usize) -> Position {
        let next = self.next[i] as usize;
        self.start.get(next).copied().unwrap_or(self.text.end())
    }

    /// The text of symbol `i` and the one after it.
    fn pair(&self, i: usize) -> Option<Escaped<'t>> {
        let next = self.next[i] as usize;
        (next < self.next.len()).then(|| self.text.escaped(self.start[i], self.end(next)))
    }

    /// The rank of symbol `i` with the one after it.
    fn rank_of(&self, i: usize, score: &dyn Fn(Escaped<'t>) -> Option<f32>) -> u32 {
        self.pair(i).and_then(score).map_or(0, rank)
    }

    fn set_rank(&mut self, symbol: usize, rank: u32) {
        self.rank[symbol] = rank;
        let mut node = (self.start.len() + symbol) / 2;
        while node > 0 {
            let better = self.better(node);
            if self.tree[node] == better && better as usize != symbol {
                return;
            }
            self.tree[node] = better;
            node /= 2;
            #[cfg(test)]
            {
                self.steps += 1;
            }
        }
    }

    /// Which symbol of a node's two is to be merged first: that of the higher rank, of equals the
    /// left one.
    fn better(&self, node: usize) -> u32 {
        let count = self.start.len();
        let winner = |child: usize| match child.checked_sub(count) {
            Some(symbol) => symbol,
            None => self.tree[child] as usize,
        };
        let (a, b) = (winner(2 * node), winner(2 * node + 1));
        let first = self.rank[a] > self.rank[b] || (self.rank[a] == self.rank[b] && a < b);
        (if first { a } else { b }) as u32
    }
}

/// A positive number that orders scores: `-inf` is low, NaN lower.
fn rank(score: f32) -> u32 {
    if score.is_nan() {
        return 1;
    }
    let bits = (score + 0.0).to_bits(); // -0 becomes +0
    if bits >> 31 == 0 {
        bits | 1 << 31
    } else {
        !bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn ranks_are_in_the_order_of_scores() {
        let scores = [
            f32::NAN,
            f32::NEG_INFINITY,
            -1e10,
            -1.0,
            -0.0,
            1e-45,
            2.0,
            f32::INFINITY,
        ];
        assert!(scores.map(rank).is_sorted_by(|a, b| a < b));
        assert_eq!(rank(0.0), rank(-0.0));
    }

    /// Steps up the tree for a text of `len` letters in which everything merges.
    fn steps(len: usize, score: impl Fn(usize) -> f32) -> usize {
        let bytes: Vec<u8> = (0..len).map(|i| b'a' + (i * i % 7) as u8).collect();
        let text = Text::new(&bytes, false);
        let mut scratch = vec![0; WORDS * len];
        let mut merger = Merger::new(text, len, &mut scratch).unwrap();
        merger.merge(&|pair| Some(score(pair.count())));
        assert_eq!(merger.symbols().count(), 1);
        merger.steps
    }

    #[test]
    fn work_grows_as_n_log_n() {
        // Short pairs first, and long ones first: pieces of equal length, and one that grows.
        for direction in [-1.0, 1.0] {
            // The lengths of pairs are those of bytes, so only the tree is counted here.
            let few = steps(500, |len| direction * len as f32);
            let many = steps(8000, |len| direction * len as f32);
            let per_log = |steps: usize, n: f64| steps as f64 / (n * n.log2());
            assert!(
                per_log(many, 8000.0) < 1.1 * per_log(few, 500.0),
                "{few} {many}"
            );
            assert!(many > 8000);
        }
    }
}
