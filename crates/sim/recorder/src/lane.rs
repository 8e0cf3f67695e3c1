//! One lane of the region: record slots and arena space, used in the order in which they are reserved.
//!
//! Recording has three steps. [`Lane::reserve`] takes the next record slot, and arena space if the record
//! has a payload. The caller *fills* the space through [`Lane::payload`] at any time before the commit.
//! [`Lane::commit`] writes the record and makes it visible together with its payload. Commits happen in the
//! order of reservation, and several reservations of one buffer may be open at a time.
//!
//! Records go into one buffer after another. The lane hands a full buffer over at once and takes the next
//! one when it is needed.

use core::mem::MaybeUninit;

use tensortap_abi::{
    DeviceRange, DumpBufferHeader, DumpGeometry, DumpRecord, LARGE_PAYLOAD_ALIGN, SMALL_PAYLOAD_ALIGN,
};
use tensortap_sync::arena::{ArenaCursors, Space};
use tensortap_sync::buffers::Filler;
use tensortap_sync::lease::Lease;

use tensortap_values::LEAF_BYTES;

use crate::page_advice::PageAdvice;
use crate::region::{Arena, Buffers, LaneWords, Parts, StateWords};

/// Two shares of the arena. A payload larger than a quarter of it goes in pieces. A quarter of the short lap is
/// enough data to wake the host for.
const SHARE: u64 = 4;
/// Bytes of the arena that are in use while the host keeps up. They stay in a second-level cache, and the
/// rest of the arena is not touched.
const SHORT_LAP_BYTES: u64 = 1 << 20;
/// Bytes of the arena that are in use at least, whatever the host's word is after a stray write.
const LEAST_LIMIT_BYTES: u64 = 64 << 10;

/// Why a reservation is not possible now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReserveRefusal {
    /// No record slot is free.
    NoPlace,
    /// A record slot is free, but arena space is not.
    NoSpace,
    /// Every slot of the buffer is reserved: commit first.
    CommitFirst,
}

/// Arena space that a record needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpaceRequest {
    pub bytes: u64,
    pub align: u64,
    /// This piece belongs to a payload that was planned as consecutive pieces: the lap must not end before
    /// it.
    pub follows: bool,
}

impl SpaceRequest {
    /// Space for data that goes in one piece.
    #[inline]
    pub const fn whole(bytes: u64, align: u64) -> SpaceRequest {
        SpaceRequest { bytes, align, follows: false }
    }
}

/// A record slot, with arena space if requested. Fill the space, then commit.
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

    /// Arena position after the payload.
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
    /// `None` once the lane is returned.
    lease: Option<Lease<'m>>,
    state: StateWords<'m>,
    run_id: u64,
    lane: u32,
    filler: Filler<LaneWords<'m>>,
    space: Space<ArenaCursors<'m>>,
    buffers: Buffers<'m>,
    arena: Arena<'m>,
    /// Reserved slots of the buffer being filled.
    reserved: u32,
    next_seq: u64,
    committed_seq: u64,
    /// Arena position after the last committed record that uses arena space. The host releases bytes up to
    /// this position only.
    committed_end: u64,
    /// Arena position from which another quarter must be written before the host is woken again.
    woken_at: u64,
    /// How often this thread has waited.
    waits: u64,
    /// Which buffers and which part of the arena will be used next.
    records_ahead: PageAdvice,
    arena_ahead: PageAdvice,
}

impl<'m> Lane<'m> {
    pub fn new(parts: Parts<'m>, run_id: u64, lane: u32, overwrites: bool) -> Self {
        let Parts { lease, state, words, buffers, arena } = parts;
        let space = if overwrites { Space::overwriting } else { Space::new };
        let space = space(state.arena(), arena.bytes()).with_short_laps(SHORT_LAP_BYTES);
        let space = space.with_limit(limit_of(state, arena.bytes()));
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
            records_ahead: PageAdvice::new(buffers.range()),
            arena_ahead: PageAdvice::new(arena.range()),
            filler,
            space,
            buffers,
            arena,
            next_seq,
            committed_seq: next_seq,
            waits: state.waits().get(),
        }
    }

    /// Memory that will soon be written for the first time. Call it after every record, until it returns
    /// `None`.
    #[inline]
    pub fn soon(&mut self) -> Option<DeviceRange> {
        let records = self.filler.filling().map_or(0, |number| self.buffers.bytes_to(number, self.reserved));
        self.records_ahead.used(records).or_else(|| self.arena_ahead.used(self.space.lap_bytes()))
    }

    /// Takes the next record slot and the requested arena space. A request for zero bytes still gets an
    /// aligned position. If either is not free now, nothing is taken.
    #[inline]
    pub fn reserve(&mut self, need: Option<SpaceRequest>) -> Result<Reservation, ReserveRefusal> {
        self.open_buffer()?;
        let position = match self.take_space(need) {
            Some(position) => position,
            None => self.take_found_space(need).ok_or(ReserveRefusal::NoSpace)?,
        };
        let place = self.reserved;
        self.reserved += 1;
        let seq = self.next_seq;
        self.next_seq += 1;
        Ok(Reservation { seq, place, position, bytes: need.map_or(0, |need| need.bytes) })
    }

    /// Inlined, so that a limit costs no instruction while space is free.
    #[inline(always)]
    fn take_space(&mut self, need: Option<SpaceRequest>) -> Option<u64> {
        match need {
            Some(SpaceRequest { bytes, align, follows: false }) => self.space.reserve_near(bytes, align),
            Some(SpaceRequest { bytes, align, follows: true }) => self.space.reserve(bytes, align),
            None => Some(0),
        }
    }

    #[cold]
    fn take_found_space(&mut self, need: Option<SpaceRequest>) -> Option<u64> {
        if self.find_space() { self.take_space(need) } else { None }
    }

    /// Uses more of the arena if the host allows it by now. Otherwise asks for more, if there is more. Returns
    /// whether more is in use.
    #[cold]
    fn find_space(&mut self) -> bool {
        let used = self.space.limit();
        if used == self.space.bytes() {
            return false;
        }
        // No other memory depends on this word: the bytes after the limit are empty.
        let is_more = self.space.raise_limit(limit_of(self.state, self.space.bytes()));
        if !is_more {
            self.state.arena_wanted().set(used);
        }
        is_more
    }

    /// Whether a reservation is possible now. It stays possible: the host only releases.
    pub fn check(&mut self, need: Option<SpaceRequest>) -> Result<(), ReserveRefusal> {
        self.open_buffer()?;
        match need {
            Some(SpaceRequest { bytes, align, .. }) => {
                let fits =
                    self.space.fits(bytes, align) || self.find_space() && self.space.fits(bytes, align);
                if fits { Ok(()) } else { Err(ReserveRefusal::NoSpace) }
            }
            None => Ok(()),
        }
    }

    /// Whether only commits of this lane's own reservations can make room: the host has released everything
    /// that was committed.
    pub fn is_blocked_by_own_reservations(&mut self, refused: ReserveRefusal) -> bool {
        match refused {
            ReserveRefusal::NoPlace => false,
            ReserveRefusal::CommitFirst => true,
            ReserveRefusal::NoSpace => {
                self.next_seq > self.committed_seq && self.space.given_back() >= self.committed_end
            }
        }
    }

    /// Whether the host has acknowledged everything that was committed.
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

    /// The first bytes of the reserved space, which the caller has filled.
    pub fn filled(&mut self, reservation: &Reservation, bytes: u64) -> &[u8] {
        let &Reservation { position, bytes: most, .. } = reservation;
        self.arena.content(self.space.offset_of(position), bytes.min(most))
    }

    /// Writes the record and makes it visible with its payload. Returns whether the host should be woken.
    #[expect(clippy::needless_pass_by_value, reason = "a reservation is used up")]
    #[inline]
    pub fn commit(&mut self, reservation: Reservation, record: &DumpRecord) -> bool {
        let Reservation { seq, place, position, bytes } = reservation;
        self.committed_end = self.committed_end.max(position + bytes);
        assert_eq!(seq, self.committed_seq, "records are committed in the order of reservation");
        let number = self.filler.filling().expect("a reserved slot is in the buffer being filled");
        self.buffers.write_record(number, place, record);
        let handed_over = self.filler.publish();
        self.committed_seq += 1;
        if handed_over {
            self.reserved = 0;
        }
        let crowded = self.arena_is_crowded();
        handed_over && self.few_buffers_are_free() || crowded
    }

    /// Returns the lane after the last record. Its words contain everything that the next holder needs to
    /// continue.
    pub fn give_back(&mut self) {
        if let Some(lease) = self.lease.take() {
            self.state.next_seq().set(self.next_seq);
            lease.give_back();
        }
    }

    /// Announces that this thread waits, and stores all its words again. A stray write may have changed
    /// them, and the host would then find nothing to release.
    pub fn wait(&mut self) {
        self.waits = self.waits.wrapping_add(1);
        self.state.waits().set(self.waits);
        self.filler.restate();
        self.space.restate();
    }

    /// The part of its arena that is in use.
    pub fn arena_range(&self) -> DeviceRange {
        DeviceRange { bytes: self.space.limit(), ..self.arena.range() }
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.lane
    }

    /// Maximum size of a payload in one record.
    pub fn largest_whole(&self) -> u64 {
        self.space.limit() / SHARE
    }

    /// Maximum number of bytes that can be reserved at a time, wherever the arena's end is by then.
    pub fn largest_reservation(&self) -> u64 {
        (self.space.bytes() / 2).saturating_sub(LARGE_PAYLOAD_ALIGN).max(self.largest_whole())
    }

    /// Number of record slots that could be reserved now.
    pub fn free_places(&mut self) -> u64 {
        let per_buffer = self.buffers.records();
        let rest = self.filler.filling().map_or(0, |_| per_buffer - self.reserved);
        u64::from(rest) + self.filler.free() * u64::from(per_buffer)
    }

    /// How a payload of this size is sent.
    #[inline]
    pub fn route(&self, bytes: u64) -> Route {
        let align = DumpGeometry::payload_align(bytes);
        let meets_end = bytes > self.space.next_piece(align).to_end;
        if meets_end || bytes > self.largest_whole() { Route::Pieces } else { Route::Whole }
    }

    /// Request for the next piece of a payload with `left_bytes` left.
    pub fn next_piece(&self, left_bytes: u64, align: u64) -> SpaceRequest {
        let to_end = self.space.next_piece(align).to_end;
        SpaceRequest { bytes: left_bytes.min(self.largest_piece()).min(to_end), align, follows: true }
    }

    /// Alignment of the first piece of a payload; the other pieces follow it. In an arena of a few pages,
    /// page alignment would waste too much space.
    pub fn first_piece_align(&self, payload_bytes: u64) -> u64 {
        let pages = self.largest_piece() >= LARGE_PAYLOAD_ALIGN;
        if pages { DumpGeometry::payload_align(payload_bytes) } else { SMALL_PAYLOAD_ALIGN }
    }

    /// Whether a payload in pieces fits now, including the slots for its records.
    pub fn check_pieces(&mut self, bytes: u64) -> Result<(), ReserveRefusal> {
        let places = self.free_places();
        let start = self.space.next_piece(self.first_piece_align(bytes)).position;
        if places == 0 || places < 2 + self.pieces_of(bytes, start) {
            return Err(ReserveRefusal::NoPlace);
        }
        if self.space.reaches(start.saturating_add(bytes)) { Ok(()) } else { Err(ReserveRefusal::NoSpace) }
    }

    fn pieces_of(&self, bytes: u64, start: u64) -> u64 {
        let (arena, largest) = (self.space.bytes(), self.largest_piece());
        let first_lap = bytes.min(arena - start % arena);
        let rest = bytes - first_lap;
        let per_lap = arena.div_ceil(largest);
        first_lap.div_ceil(largest) + rest / arena * per_lap + (rest % arena).div_ceil(largest)
    }

    /// Whole leaves, if the arena is large enough for one.
    fn largest_piece(&self) -> u64 {
        let (share, leaf) = (self.space.limit() / SHARE, LEAF_BYTES as u64);
        if share >= leaf { share - share % leaf } else { share }
    }

    /// Makes sure that a buffer with a free slot is open.
    #[inline]
    fn open_buffer(&mut self) -> Result<(), ReserveRefusal> {
        match self.filler.filling() {
            Some(_) if self.reserved < self.buffers.records() => Ok(()),
            Some(_) => Err(ReserveRefusal::CommitFirst),
            None => self.begin_buffer(),
        }
    }

    fn begin_buffer(&mut self) -> Result<(), ReserveRefusal> {
        let header = DumpBufferHeader {
            run_id: self.run_id,
            first_seq: self.next_seq,
            lane: self.lane.into(),
            ..DumpBufferHeader::default()
        };
        let Self { filler, buffers, .. } = self;
        let began = filler.begin(|number| buffers.write_header(number, &header));
        began.then_some(()).ok_or(ReserveRefusal::NoPlace)
    }

    fn few_buffers_are_free(&mut self) -> bool {
        self.filler.free() * 2 <= u64::from(self.buffers.count())
    }

    /// Whether a quarter of a short lap is in use. True at most once per quarter written.
    #[inline]
    fn arena_is_crowded(&mut self) -> bool {
        let share = self.space.short_lap() / SHARE;
        if self.space.written() - self.woken_at < share {
            return false;
        }
        let in_use = self.space.in_use();
        let crowded = in_use >= share;
        // If not, check again once a quarter has been written beyond the host's position.
        self.woken_at = self.space.written() - if crowded { 0 } else { in_use };
        crowded
    }
}

/// How many bytes of the arena the host allows. A stray write may have changed the word.
fn limit_of(state: StateWords<'_>, arena_bytes: u64) -> u64 {
    match state.arena_limit().get() {
        0 => arena_bytes,
        limit => (limit - limit % LARGE_PAYLOAD_ALIGN).clamp(LEAST_LIMIT_BYTES.min(arena_bytes), arena_bytes),
    }
}

/// How a payload is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// In one record.
    Whole,
    /// As begin, pieces and commit records.
    Pieces,
}

#[cfg(test)]
mod tests;
