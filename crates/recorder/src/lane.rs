//! One lane: a thread's way to the host: record places and arena space, in the order they are reserved.
//!
//! Recording is three steps. [`Lane::reserve`] takes the next record place, and arena space if the record has a
//! payload. The space is *filled* through [`Lane::payload`], at any time until [`Lane::commit`] writes the record and
//! makes it visible with its payload. Commits come in the order of reservation; several reservations of one buffer may
//! be under way.
//!
//! Records go into one buffer after another. A full one is handed over at once, the next is taken when it is needed.

use core::mem::MaybeUninit;

use tensortap_abi::{
    DeviceRange, DumpBufferHeader, DumpGeometry, DumpRecord, LARGE_PAYLOAD_ALIGN, SMALL_PAYLOAD_ALIGN,
};
use tensortap_sync::arena::{ArenaCursors, Space};
use tensortap_sync::buffers::Filler;
use tensortap_sync::lease::Lease;

use tensortap_values::LEAF_BYTES;

use crate::ahead::Ahead;
use crate::region::{Arena, Buffers, LaneWords, Parts, StateWords};

/// A payload larger than this part of the arena goes in pieces; this part of what is used while the host keeps up is worth
/// waking it for.
const SHARE: u64 = 4;
/// Bytes of the arena that are used as long as the host keeps up: they stay in a second-level cache, and no others are touched.
const SHORT_LAP_BYTES: u64 = 1 << 20;

/// Why a reservation is not possible now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// No record place is free.
    NoPlace,
    /// A place is free, arena space is not.
    NoSpace,
    /// Every place of the buffer is reserved: commit first.
    CommitFirst,
}

/// Arena space that a record needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub bytes: u64,
    pub align: u64,
    /// The piece of a payload whose other pieces were counted on to follow it: the lap does not end before it.
    pub follows: bool,
}

impl Need {
    /// Space for something that goes in one piece.
    #[inline]
    pub const fn whole(bytes: u64, align: u64) -> Need {
        Need { bytes, align, follows: false }
    }
}

/// A record place, and arena space if asked for. To be filled, then committed.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a reservation that is never committed holds up all later ones"]
pub(crate) struct Reservation {
    seq: u64,
    place: u32,
    position: u64,
    bytes: u64,
}

impl Reservation {
    /// Arena position of the payload.
    #[inline]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Arena position behind the payload.
    pub fn end(&self) -> u64 {
        self.position + self.bytes
    }

    /// Sequence number of the record.
    pub fn seq(&self) -> u64 {
        self.seq
    }
}

/// The device's half of one lane.
#[derive(Debug)]
pub(crate) struct Lane<'m> {
    /// Until the lane is returned.
    lease: Option<Lease<'m>>,
    state: StateWords<'m>,
    run_id: u64,
    lane: u32,
    filler: Filler<LaneWords<'m>>,
    space: Space<ArenaCursors<'m>>,
    buffers: Buffers<'m>,
    arena: Arena<'m>,
    /// Places taken of the buffer being filled.
    reserved: u32,
    next_seq: u64,
    committed_seq: u64,
    /// Arena position behind the last committed record that has any: the host gives back up to there and no further.
    committed_end: u64,
    /// Arena position from which another quarter has to be written before the host is woken for it.
    woken_at: u64,
    /// How often this thread has waited.
    waits: u64,
    /// Which buffers and which part of the arena come next.
    records_ahead: Ahead,
    arena_ahead: Ahead,
}

impl<'m> Lane<'m> {
    pub fn new(parts: Parts<'m>, run_id: u64, lane: u32, overwrites: bool) -> Self {
        let Parts { lease, state, words, buffers, arena } = parts;
        let space = if overwrites { Space::overwriting } else { Space::new };
        let space = space(state.arena(), arena.bytes()).with_short_laps(SHORT_LAP_BYTES);
        let filler = Filler::new(words);
        let next_seq = state.next_seq().get();
        Self {
            lease: Some(lease),
            state,
            run_id,
            lane,
            reserved: u32::try_from(filler.published()).expect("a buffer counts its records in 32 bits"),
            committed_end: space.written(),
            woken_at: space.written(),
            records_ahead: Ahead::new(buffers.range()),
            arena_ahead: Ahead::new(arena.range()),
            filler,
            space,
            buffers,
            arena,
            next_seq,
            committed_seq: next_seq,
            waits: state.waits().get(),
        }
    }

    /// Memory that will be written soon and was not before. To be asked after every record, and until there is none.
    #[inline]
    pub fn soon(&mut self) -> Option<DeviceRange> {
        let records = self.filler.filling().map_or(0, |number| self.buffers.bytes_to(number, self.reserved));
        self.records_ahead.used(records).or_else(|| self.arena_ahead.used(self.space.lap_bytes()))
    }

    /// Takes the next record place, and the arena space needed. A need for no bytes still takes an aligned position.
    /// When either is not free now, nothing is taken.
    #[inline]
    pub fn reserve(&mut self, need: Option<Need>) -> Result<Reservation, Refused> {
        self.open_buffer()?;
        let position = match need {
            Some(Need { bytes, align, follows: false }) => self.space.reserve_near(bytes, align),
            Some(Need { bytes, align, follows: true }) => self.space.reserve(bytes, align),
            None => Some(0),
        };
        let position = position.ok_or(Refused::NoSpace)?;
        let place = self.reserved;
        self.reserved += 1;
        let seq = self.next_seq;
        self.next_seq += 1;
        Ok(Reservation { seq, place, position, bytes: need.map_or(0, |need| need.bytes) })
    }

    /// Whether a reservation is possible now. It still is later: the host only gives back.
    pub fn check(&mut self, need: Option<Need>) -> Result<(), Refused> {
        self.open_buffer()?;
        match need {
            Some(Need { bytes, align, .. }) if !self.space.fits(bytes, align) => Err(Refused::NoSpace),
            _ => Ok(()),
        }
    }

    /// Whether only commits of this lane's own reservations make room: the host has given back all that was committed.
    pub fn is_held_up_by_itself(&mut self, refused: Refused) -> bool {
        match refused {
            Refused::NoPlace => false,
            Refused::CommitFirst => true,
            Refused::NoSpace => {
                self.next_seq > self.committed_seq && self.space.given_back() >= self.committed_end
            }
        }
    }

    /// Whether everything committed is safe on the host's side.
    pub fn is_acknowledged(&self) -> bool {
        self.state.acknowledged().see() >= self.committed_seq
    }

    /// The reserved arena space.
    #[inline]
    pub fn payload(&mut self, reservation: &Reservation) -> &mut [MaybeUninit<u8>] {
        let &Reservation { seq, position, bytes, .. } = reservation;
        assert!(seq >= self.committed_seq, "record {seq} is committed");
        self.arena.piece(self.space.offset_of(position), bytes)
    }

    /// The first bytes of the reserved space, which somebody has filled.
    pub fn filled(&mut self, reservation: &Reservation, bytes: u64) -> &[u8] {
        let &Reservation { position, bytes: most, .. } = reservation;
        self.arena.content(self.space.offset_of(position), bytes.min(most))
    }

    /// Writes the record and makes it visible, with its payload. Whether the host should be woken.
    #[expect(clippy::needless_pass_by_value, reason = "a reservation is used up")]
    #[inline]
    pub fn commit(&mut self, reservation: Reservation, record: &DumpRecord) -> bool {
        let Reservation { seq, place, position, bytes } = reservation;
        self.committed_end = self.committed_end.max(position + bytes);
        assert_eq!(seq, self.committed_seq, "records are committed in the order of reservation");
        let number = self.filler.filling().expect("a reserved place is in the buffer being filled");
        self.buffers.write_record(number, place, record);
        let handed_over = self.filler.publish();
        self.committed_seq += 1;
        if handed_over {
            self.reserved = 0;
        }
        let crowded = self.arena_is_crowded();
        handed_over && self.few_buffers_are_free() || crowded
    }

    /// Returns the lane, after the last record. What whoever leases it next needs to go on is in its words.
    pub fn give_back(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.state.next_seq().set(self.next_seq);
            lease.give_back();
        }
    }

    /// Says that this thread waits, and all its words again: somebody may have written over them, and the host would then
    /// find nothing to give back.
    pub fn wait(&mut self) {
        self.waits = self.waits.wrapping_add(1);
        self.state.waits().set(self.waits);
        self.filler.restate();
        self.space.restate();
    }

    /// Where its arena lies.
    pub fn arena_range(&self) -> DeviceRange {
        self.arena.range()
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.lane
    }

    /// The most bytes that go in one record.
    pub fn largest_whole(&self) -> u64 {
        self.space.bytes() / SHARE
    }

    /// The most bytes that can be reserved at a time, wherever the arena's end is by then.
    pub fn largest_reservation(&self) -> u64 {
        (self.space.bytes() / 2).saturating_sub(LARGE_PAYLOAD_ALIGN).max(self.largest_whole())
    }

    /// Record places that could be reserved now.
    pub fn free_places(&mut self) -> u64 {
        let per_buffer = self.buffers.records();
        let rest = self.filler.filling().map_or(0, |_| per_buffer - self.reserved);
        u64::from(rest) + self.filler.free() * u64::from(per_buffer)
    }

    /// Where a payload of this size goes.
    #[inline]
    pub fn route(&self, bytes: u64) -> Route {
        let align = DumpGeometry::payload_align(bytes);
        let meets_end = bytes > self.space.next_piece(align).to_end;
        if meets_end || bytes > self.largest_whole() { Route::Pieces } else { Route::Whole }
    }

    /// The next piece of a payload of which `left_bytes` are left.
    pub fn next_piece(&self, left_bytes: u64, align: u64) -> Need {
        let to_end = self.space.next_piece(align).to_end;
        Need { bytes: left_bytes.min(self.largest_piece()).min(to_end), align, follows: true }
    }

    /// Alignment of the first piece of a payload; the others follow it. In an arena of a few pages, page alignment
    /// would waste more than it has.
    pub fn first_piece_align(&self, payload_bytes: u64) -> u64 {
        let pages = self.largest_piece() >= LARGE_PAYLOAD_ALIGN;
        if pages { DumpGeometry::payload_align(payload_bytes) } else { SMALL_PAYLOAD_ALIGN }
    }

    /// Whether a payload fits in pieces now, places for its records included.
    pub fn check_pieces(&mut self, bytes: u64) -> Result<(), Refused> {
        let places = self.free_places();
        let start = self.space.next_piece(self.first_piece_align(bytes)).position;
        if places == 0 || places < 2 + self.pieces_of(bytes, start) {
            return Err(Refused::NoPlace);
        }
        if self.space.reaches(start.saturating_add(bytes)) { Ok(()) } else { Err(Refused::NoSpace) }
    }

    fn pieces_of(&self, bytes: u64, start: u64) -> u64 {
        let (arena, largest) = (self.space.bytes(), self.largest_piece());
        let first_lap = bytes.min(arena - start % arena);
        let rest = bytes - first_lap;
        let per_lap = arena.div_ceil(largest);
        first_lap.div_ceil(largest) + rest / arena * per_lap + (rest % arena).div_ceil(largest)
    }

    /// Whole leaves, where the arena is large enough to have any.
    fn largest_piece(&self) -> u64 {
        let (share, leaf) = (self.space.bytes() / SHARE, LEAF_BYTES as u64);
        if share >= leaf { share - share % leaf } else { share }
    }

    /// Makes sure that there is a buffer with a free place.
    #[inline]
    fn open_buffer(&mut self) -> Result<(), Refused> {
        match self.filler.filling() {
            Some(_) if self.reserved < self.buffers.records() => Ok(()),
            Some(_) => Err(Refused::CommitFirst),
            None => self.begin_buffer(),
        }
    }

    fn begin_buffer(&mut self) -> Result<(), Refused> {
        let header = DumpBufferHeader {
            run_id: self.run_id,
            first_seq: self.next_seq,
            lane: self.lane.into(),
            ..DumpBufferHeader::default()
        };
        let Self { filler, buffers, .. } = self;
        let began = filler.begin(|number| buffers.write_header(number, &header));
        began.then_some(()).ok_or(Refused::NoPlace)
    }

    fn few_buffers_are_free(&mut self) -> bool {
        self.filler.free() * 2 <= u64::from(self.buffers.count())
    }

    /// Whether a quarter of a short lap is in use, said at most once per quarter written.
    #[inline]
    fn arena_is_crowded(&mut self) -> bool {
        let share = self.space.short_lap() / SHARE;
        if self.space.written() - self.woken_at < share {
            return false;
        }
        let in_use = self.space.in_use();
        let crowded = in_use >= share;
        // If not, it is so again when a quarter has been written beyond what the host has consumed.
        self.woken_at = self.space.written() - if crowded { 0 } else { in_use };
        crowded
    }
}

/// How a payload travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// In one record.
    Whole,
    /// As begin, pieces and commit.
    Pieces,
}

#[cfg(test)]
mod tests;
