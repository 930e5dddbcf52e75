//! The tokens that the repetition penalty looks back on.

/// The last tokens of a text, as many as the caller's buffer holds.
#[derive(Debug)]
pub struct Recent<'a> {
    ids: &'a mut [u32],
    len: usize,
    next: usize,
}

impl<'a> Recent<'a> {
    /// Nothing seen yet; `buffer` is llama.cpp's `--repeat-last-n` long (64 there by default) and
    /// may be empty.
    #[must_use]
    pub const fn new(buffer: &'a mut [u32]) -> Self {
        Self {
            ids: buffer,
            len: 0,
            next: 0,
        }
    }

    /// Takes note of a token of the prompt or of the answer; the oldest is forgotten.
    pub fn push(&mut self, id: u32) {
        if let Some(slot) = self.ids.get_mut(self.next) {
            *slot = id;
            self.next = (self.next + 1) % self.ids.len();
            self.len = self.ids.len().min(self.len + 1);
        }
    }

    /// Forgets all.
    pub const fn clear(&mut self) {
        self.len = 0;
        self.next = 0;
    }

    /// The tokens, in no particular order.
    #[must_use]
    pub fn ids(&self) -> &[u32] {
        &self.ids[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgets_the_oldest() {
        let mut buffer = [0; 3];
        let mut recent = Recent::new(&mut buffer);
        assert_eq!(recent.ids(), []);
        for id in [5, 6, 7, 8] {
            recent.push(id);
        }
        let mut ids = [0; 3];
        ids.copy_from_slice(recent.ids());
        ids.sort_unstable();
        assert_eq!(ids, [6, 7, 8]);
        recent.clear();
        assert_eq!(recent.ids(), []);
    }

    #[test]
    fn an_empty_buffer_holds_nothing() {
        let mut recent = Recent::new(&mut []);
        recent.push(1);
        assert_eq!(recent.ids(), []);
    }
}
