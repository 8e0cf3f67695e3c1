//! A ring of bytes or edge nodes that is allocated and released in order.

/// Positions increase monotonically. The index in the ring is the position modulo the capacity. A piece never
/// wraps around the end of the ring; the remaining units there are skipped.
#[derive(Clone, Debug)]
pub struct SpanRing {
    capacity: u64,
    head: u64,
    tail: u64,
}

impl SpanRing {
    /// An empty ring.
    pub fn new(capacity: u64) -> SpanRing {
        SpanRing { capacity, head: 0, tail: 0 }
    }

    /// Capacity in units.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Position after the last piece.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Position up to which everything was released.
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Allocates a contiguous piece and returns its index, or `None` if there is no room.
    pub fn take(&mut self, units: u64) -> Option<u64> {
        let start = self.start_of(units)?;
        let end = start.checked_add(units)?;
        if self.tail == self.head {
            // The ring is empty, so the skipped units need not be released.
            self.tail = start;
        }
        if end - self.tail > self.capacity {
            return None;
        }
        self.head = end;
        Some(start % self.capacity)
    }

    fn start_of(&self, units: u64) -> Option<u64> {
        if units > self.capacity || self.capacity == 0 {
            return None;
        }
        let place = self.head % self.capacity;
        Some(if place + units > self.capacity { self.head + (self.capacity - place) } else { self.head })
    }

    /// Releases everything below a position from [`SpanRing::head`].
    pub fn release_to(&mut self, position: u64) {
        debug_assert!(position <= self.head);
        // The tail may already be further, because `take` moves it when the ring is empty.
        self.tail = self.tail.max(position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_piece_larger_than_the_ring_never_fits() {
        assert_eq!(SpanRing::new(8).take(9), None);
        assert_eq!(SpanRing::new(0).take(0), None);
    }

    proptest! {
        #[test]
        fn room_for_one_extra_piece_is_enough_to_never_wait(out in 1_usize..5, pieces in prop::collection::vec(1_u64..=16, 0..200)) {
            let mut ring = SpanRing::new((out as u64 + 1) * 16);
            let mut live = std::collections::VecDeque::new();
            for units in pieces {
                if live.len() == out {
                    ring.release_to(live.pop_front().unwrap());
                }
                prop_assert!(ring.take(units).is_some(), "no room for {units} units with {} live pieces", live.len());
                live.push_back(ring.head());
            }
        }

        #[test]
        fn live_pieces_are_disjoint_and_an_empty_ring_fits_any_piece_up_to_its_capacity(capacity in 1_u64..64, steps in prop::collection::vec((0_u64..20, any::<bool>()), 0..200)) {
            let mut ring = SpanRing::new(capacity);
            let mut live: Vec<(u64, u64, u64)> = Vec::new();
            for (units, free_first) in steps {
                if free_first && !live.is_empty() {
                    let (_, _, end) = live.remove(0);
                    ring.release_to(end);
                }
                if let Some(place) = ring.take(units) {
                    prop_assert!(place + units <= capacity);
                    for &(other, len, _) in &live {
                        prop_assert!(units == 0 || len == 0 || place + units <= other || other + len <= place);
                    }
                    live.push((place, units, ring.head()));
                } else {
                    prop_assert!(!live.is_empty() || units > capacity);
                }
            }
        }
    }
}
