//! Keeps a command's output within a cap, however much it writes (R-EX-4).

/// The first and last bytes of a stream.
pub struct Ends {
    keep: usize,
    head: Vec<u8>,
    /// At most twice `keep`; only its last `keep` bytes count.
    tail: Vec<u8>,
    total: u64,
}

impl Ends {
    /// Keeps `keep` bytes of each end.
    pub fn new(keep: usize) -> Self {
        Self { keep, head: Vec::new(), tail: Vec::new(), total: 0 }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (to_head, rest) = bytes.split_at(bytes.len().min(self.keep - self.head.len()));
        self.head.extend_from_slice(to_head);
        // What lies further from the end than `keep` can only be dropped.
        let rest = &rest[rest.len().saturating_sub(self.keep)..];
        if self.tail.len() + rest.len() > 2 * self.keep {
            self.tail.drain(..self.tail.len() - self.keep);
        }
        self.tail.extend_from_slice(rest);
    }

    /// Head, tail, and how many bytes between them were dropped.
    pub fn finish(mut self) -> (Vec<u8>, Vec<u8>, u64) {
        let surplus = self.tail.len().saturating_sub(self.keep);
        self.tail.drain(..surplus);
        let omitted = self.total - (self.head.len() + self.tail.len()) as u64;
        (self.head, self.tail, omitted)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn r_ex_4_both_ends_are_kept_and_the_rest_is_counted(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..20),
            keep in 0usize..60,
        ) {
            let mut ends = Ends::new(keep);
            for piece in &pieces {
                ends.push(piece);
                prop_assert!(ends.tail.len() <= 2 * keep);
            }
            let all = pieces.concat();
            let (head, tail, omitted) = ends.finish();
            prop_assert_eq!(&head[..], &all[..keep.min(all.len())]);
            let rest = &all[head.len()..];
            prop_assert_eq!(&tail[..], &rest[rest.len().saturating_sub(keep)..]);
            prop_assert_eq!(omitted as usize, all.len() - head.len() - tail.len());
        }
    }
}
