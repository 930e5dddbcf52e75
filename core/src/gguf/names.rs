//! Finding names that come twice, among thousands in time that grows with them.

use core::hash::Hasher;

use super::{ErrorKind, TensorInfo, Value, ValueType, parse::Report, parse::tell, reader::Reader};
use crate::sort::sort_unstable_by;

/// Entries that begin with a name, one after the other.
pub(super) struct Names<'a> {
    pub(super) start: Reader<'a>,
    pub(super) count: usize,
    /// Reads an entry and gives its name.
    pub(super) next: fn(&mut Reader<'a>) -> Option<&'a [u8]>,
}

pub(super) fn skip_entry<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let key = reader.string("key").ok()?;
    let ty = ValueType::from_id(reader.u32("value type").ok()?)?;
    Value::read(reader, ty).ok()?;
    Some(key)
}

pub(super) fn skip_info<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    let info = TensorInfo::read(reader).ok()?;
    Some(info.name_bytes())
}

impl<'a> Names<'a> {
    /// Reports every name that came before, with the place where it came first.
    ///
    /// Names are compared by their hashes first: sorting numbers is quick, where sorting names
    /// leads all over the file. Only where hashes are equal, rare unless somebody meant it, the
    /// names are looked at.
    pub(super) fn duplicates(
        &self,
        scratch: Option<&mut [u32]>,
        report: Report<'_>,
        kind: impl Fn(u64) -> ErrorKind,
    ) -> Option<()> {
        let Some(slots) = scratch.and_then(|scratch| scratch.get_mut(..self.count)) else {
            return self.each_with_each(report, kind);
        };
        let mut reader = self.start;
        for slot in slots.iter_mut() {
            *slot = short_hash((self.next)(&mut reader)?);
        }
        sort_unstable_by(slots, u32::cmp);
        let equal = slots.windows(2).filter(|pair| pair.first() == pair.last());
        let mut shared = [0; 8];
        let mut count = 0_usize;
        for hash in equal.filter_map(|pair| pair.first()) {
            if shared.get(..count)?.last() == Some(hash) {
                continue;
            }
            let Some(slot) = shared.get_mut(count) else {
                // Many: somebody meant it. Look at all names.
                return self.sorted_by_name(slots, |_| true, report, kind);
            };
            *slot = *hash;
            count = count.saturating_add(1);
        }
        match shared.get(..count) {
            None | Some([]) => Some(()),
            Some(shared) => {
                let suspect = |name: &[u8]| shared.contains(&short_hash(name));
                self.sorted_by_name(slots, suspect, report, kind)
            }
        }
    }

    /// Reports every name among those that are `suspect` which came before.
    fn sorted_by_name(
        &self,
        slots: &mut [u32],
        suspect: impl Fn(&[u8]) -> bool,
        report: Report<'_>,
        kind: impl Fn(u64) -> ErrorKind,
    ) -> Option<()> {
        let mut reader = self.start;
        let mut count = 0_usize;
        for _ in 0..self.count {
            let position = u32::try_from(reader.at()).ok()?;
            if suspect((self.next)(&mut reader)?) {
                *slots.get_mut(count)? = position;
                count = count.saturating_add(1);
            }
        }
        let slots = slots.get_mut(..count)?;
        let name = |&position: &u32| self.name_at(position);
        sort_unstable_by(slots, |a, b| name(a).cmp(name(b)).then(a.cmp(b)));
        let mut first = None;
        for pair in slots.windows(2) {
            let &[before, after] = pair else { continue };
            if name(&before) == name(&after) {
                let first = *first.get_or_insert(before);
                tell(report, kind(first.into()), after.into())?;
            } else {
                first = None;
            }
        }
        Some(())
    }

    fn each_with_each(&self, report: Report<'_>, kind: impl Fn(u64) -> ErrorKind) -> Option<()> {
        let mut later = self.start;
        for index in 0..self.count {
            let offset = later.offset();
            let name = (self.next)(&mut later)?;
            let mut earlier = self.start;
            for _ in 0..index {
                let first = earlier.offset();
                if (self.next)(&mut earlier)? == name {
                    tell(report, kind(first), offset)?;
                    break;
                }
            }
        }
        Some(())
    }

    fn name_at(&self, position: u32) -> &'a [u8] {
        let at = usize::try_from(position).unwrap_or(usize::MAX);
        let mut reader = self.start.moved_to(at);
        reader.string("name").unwrap_or_default()
    }
}

/// 32 bits of a name's FNV-1a hash.
pub(super) fn short_hash(name: &[u8]) -> u32 {
    let mut hasher = fnv::FnvHasher::default();
    hasher.write(name);
    let [a, b, c, d, e, f, g, h] = hasher.finish().to_le_bytes();
    u32::from_le_bytes([a, b, c, d]) ^ u32::from_le_bytes([e, f, g, h])
}
