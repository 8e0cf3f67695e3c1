//! Collective operations: what the tasks of several ranks do together.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::record::dump_record;

/// Kind of a collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum CollectiveKind {
    /// None of the other kinds.
    Other = 1,
    /// Every rank gets the sum (or another reduction) of all inputs.
    AllReduce = 2,
    /// Every rank gets the inputs of all ranks.
    AllGather = 3,
    /// Every rank gets a part of the reduction of all inputs.
    ReduceScatter = 4,
    /// Every rank gets the input of one rank.
    Broadcast = 5,
    /// Every rank gets a part of the input of each rank.
    AllToAll = 6,
    /// No data is exchanged.
    Barrier = 7,
    /// The rank sends data to another rank.
    Send = 8,
    /// The rank receives data from another rank.
    Receive = 9,
}

impl CollectiveKind {
    /// Every kind.
    pub const ALL: [CollectiveKind; 9] = [
        CollectiveKind::Other,
        CollectiveKind::AllReduce,
        CollectiveKind::AllGather,
        CollectiveKind::ReduceScatter,
        CollectiveKind::Broadcast,
        CollectiveKind::AllToAll,
        CollectiveKind::Barrier,
        CollectiveKind::Send,
        CollectiveKind::Receive,
    ];

    /// The kind of a tag; `None` if the tag is damaged.
    pub fn from_tag(tag: u8) -> Option<CollectiveKind> {
        CollectiveKind::ALL.into_iter().find(|&kind| kind as u8 == tag)
    }

    /// The kind with this name in JSON.
    pub fn named(name: &str) -> Option<CollectiveKind> {
        CollectiveKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            CollectiveKind::Other => "other",
            CollectiveKind::AllReduce => "all_reduce",
            CollectiveKind::AllGather => "all_gather",
            CollectiveKind::ReduceScatter => "reduce_scatter",
            CollectiveKind::Broadcast => "broadcast",
            CollectiveKind::AllToAll => "all_to_all",
            CollectiveKind::Barrier => "barrier",
            CollectiveKind::Send => "send",
            CollectiveKind::Receive => "recv",
        }
    }

    /// Whether it leaves the same content on every rank of its group.
    pub const fn has_equal_results(self) -> bool {
        matches!(
            self,
            CollectiveKind::AllReduce
                | CollectiveKind::AllGather
                | CollectiveKind::Broadcast
                | CollectiveKind::Barrier
        )
    }
}

dump_record! {
    /// The task in the head is one rank's part of a collective operation. The parts of one operation have
    /// the same group and the same number on all ranks.
    CollectiveRecord = Collective {
        /// Number of the operation in its group.
        sequence: u64 = 16,
        /// String id of the name of the group.
        group: u32 = 24,
        /// [`CollectiveKind`] tag.
        collective: u8 = 28,
        /// Zero.
        reserved0: [u8; 3] = 29,
        /// Zero.
        reserved: [u64; 20] = 32,
    }
}

impl CollectiveRecord {
    /// Whether its fields are valid. Unused bytes are checked like those of every record.
    pub fn is_sound(&self) -> bool {
        self.group != 0 && CollectiveKind::from_tag(self.collective).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_round_trip_and_others_are_rejected() {
        for kind in CollectiveKind::ALL {
            assert_eq!(CollectiveKind::from_tag(kind as u8), Some(kind));
            assert_eq!(CollectiveKind::named(kind.name()), Some(kind));
        }
        assert!([0, 10, 255].into_iter().all(|tag| CollectiveKind::from_tag(tag).is_none()));
        assert!(!CollectiveRecord { group: 0, collective: 2, ..CollectiveRecord::default() }.is_sound());
        assert!(!CollectiveRecord { group: 1, collective: 0, ..CollectiveRecord::default() }.is_sound());
        assert!(CollectiveRecord { group: 1, collective: 2, ..CollectiveRecord::default() }.is_sound());
    }
}
