//! Which bytes of a circular arena are in use.
//!
//! Positions are monotonic byte counts; the byte at a position has the offset `position % bytes` in the
//! arena. `written` is the position after the last byte that the producer has handed out. `consumed` is the
//! position after the last byte that the consumer no longer needs. Bytes between the two are in use, except
//! skipped ones. Bytes are skipped for alignment, and because a piece never straddles the arena's end. Both cursors
//! pass over them.
//!
//! One pass through the arena is a *lap*. A producer with a [short lap](Space::with_short_laps) returns to
//! the arena's start once it has used that many bytes and the consumer has released half of them. While the
//! consumer keeps up, the same few bytes are reused and stay in a cache. If the consumer is too slow, the
//! lap continues, up to the arena's end. If the rest of the previous lap is not released in time, the
//! producer continues after it. Bytes of at most two laps are therefore in use, no two of them the same
//! byte, and `written` is never further ahead than twice the arena.
//!
//! An arena may be longer than the memory that its producer should use. A [limit](Space::with_limit) ends every lap
//! early, and the producer [raises](Space::raise_limit) it when its consumer allows that. Memory of the bytes after
//! the limit is never touched. The positions of a lap do not depend on the limit, so the consumer does not need it.
//!
//! The cursors decide which side owns which bytes. They do not state that the bytes of a piece are
//! complete; [`commit`](crate::commit) does that. A reader that sees a record committed also sees a
//! `written` that covers its payload.
//!
//! The producer fills the arena, so the arena is in its memory. The consumer may be a host that only
//! copies; see [`Word`].
//!
//! ```
//! use tensortap_sync::SharedU64;
//! use tensortap_sync::arena::{ArenaCursors, Consumer, Space};
//!
//! let (written, consumed) = (SharedU64::new(0), SharedU64::new(0));
//! let cursors = ArenaCursors { written: &written, consumed: &consumed };
//! let (mut space, mut host) = (Space::new(cursors, 256), Consumer::new(cursors, 256));
//! assert_eq!(space.reserve(100, 64), Some(0));
//! assert_eq!(space.reserve(120, 64), Some(128));
//! assert_eq!(space.reserve(64, 64), None);
//! assert_eq!(host.poll()?, 248);
//! host.release_to(100)?;
//! assert_eq!(space.reserve(64, 64), Some(256));
//! # Ok::<(), tensortap_sync::cursor::ReadError<core::convert::Infallible>>(())
//! ```

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use core::convert::Infallible;
use core::marker::PhantomData;

use crate::atomic::Ordering;
use crate::cursor::{Follower, ReadError};
use crate::orderings::{ArenaOrderings, ProvenOrderings};
use crate::{SharedU64, Word};

/// The two cursors, and how one side reaches them. They should be on different cache lines.
pub trait ArenaWords {
    /// Why a cursor cannot be reached.
    type Error;

    /// Position after the last byte handed out. Only the producer writes it.
    fn written(&self) -> impl Word<Error = Self::Error>;
    /// Position below which the producer may reuse every byte. Only the consumer writes it.
    fn consumed(&self) -> impl Word<Error = Self::Error>;
}

impl<W: ArenaWords + ?Sized> ArenaWords for &W {
    type Error = W::Error;

    fn written(&self) -> impl Word<Error = W::Error> {
        (**self).written()
    }

    fn consumed(&self) -> impl Word<Error = W::Error> {
        (**self).consumed()
    }
}

/// Cursors that are in this side's memory.
#[derive(Clone, Copy, Debug)]
pub struct ArenaCursors<'m> {
    /// The producer's cursor.
    pub written: &'m SharedU64,
    /// The consumer's cursor.
    pub consumed: &'m SharedU64,
}

impl ArenaWords for ArenaCursors<'_> {
    type Error = Infallible;

    #[inline]
    fn written(&self) -> impl Word<Error = Infallible> {
        self.written
    }

    #[inline]
    fn consumed(&self) -> impl Word<Error = Infallible> {
        self.consumed
    }
}

/// The place where the next piece would start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextPiece {
    /// Its position.
    pub position: u64,
    /// Bytes from that position to the arena's end.
    pub to_end: u64,
}

/// A place for the requested bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fit {
    position: u64,
    begins_lap: bool,
}

/// The producer's half.
#[derive(Debug)]
pub struct Space<W, O = ProvenOrderings> {
    words: W,
    bytes: u64,
    /// Bytes of the arena in use: at most `bytes`, and never less than before.
    limit: u64,
    written: u64,
    consumed: Follower,
    /// Position where this lap started: a multiple of the arena's size.
    lap: u64,
    /// Position after the last byte of the previous lap. The producer must not overwrite bytes of that lap
    /// that are not released yet.
    last_lap_end: u64,
    /// Bytes after which a lap may end early; all of the arena if it may not.
    short_lap: u64,
    /// Below this position there is no need to check whether the lap may end.
    ask_from: u64,
    overwrites: bool,
    orderings: PhantomData<fn() -> O>,
}

impl<W: ArenaWords<Error = Infallible>> Space<W> {
    /// Takes the producing half of an arena of `bytes` (not zero) and continues where its last holder
    /// stopped.
    pub fn new(words: W, bytes: u64) -> Self {
        Self::with_orderings(words, bytes, false)
    }

    /// As [`new`](Self::new), for an arena that no consumer reads while it is written: new pieces overwrite
    /// the oldest.
    pub fn overwriting(words: W, bytes: u64) -> Self {
        Self::with_orderings(words, bytes, true)
    }
}

impl<W: ArenaWords<Error = Infallible>, O: ArenaOrderings> Space<W, O> {
    fn with_orderings(words: W, bytes: u64, overwrites: bool) -> Self {
        debug_assert!(bytes > 0, "an arena without bytes");
        // Relaxed: the previous holder of this half, if any, handed it over with its own synchronization.
        let Ok(written) = words.written().load(Ordering::Relaxed);
        let lap = written - written % bytes;
        Self {
            words,
            bytes,
            limit: bytes,
            written,
            // At most two laps back, whatever value the other side's word has.
            consumed: Follower::new(lap.saturating_sub(bytes)),
            lap,
            // The position where the last holder ended that lap is not known, so this holder skips none of
            // its bytes.
            last_lap_end: lap,
            short_lap: bytes,
            ask_from: 0,
            overwrites,
            orderings: PhantomData,
        }
    }

    /// Lets [`reserve_near`](Self::reserve_near) end a lap after `bytes` if half of them are released by
    /// then. An arena no longer than `bytes` is always used in full; so is an overwriting one.
    ///
    /// ```
    /// # use tensortap_sync::SharedU64;
    /// # use tensortap_sync::arena::{ArenaCursors, Consumer, Space};
    /// # let (written, consumed) = (SharedU64::new(0), SharedU64::new(0));
    /// # let cursors = ArenaCursors { written: &written, consumed: &consumed };
    /// let (mut space, mut host) = (Space::new(cursors, 1024).with_short_laps(256), Consumer::new(cursors, 1024));
    /// assert_eq!([space.reserve_near(128, 64), space.reserve_near(128, 64)], [Some(0), Some(128)]);
    /// host.poll()?;
    /// host.release_to(128)?;
    /// assert_eq!(space.reserve_near(64, 64), Some(1024), "at the arena's beginning again");
    /// assert_eq!(space.reserve_near(128, 64), Some(1024 + 256), "after the bytes still in use");
    /// # Ok::<(), tensortap_sync::cursor::ReadError<core::convert::Infallible>>(())
    /// ```
    #[must_use]
    pub fn with_short_laps(self, bytes: u64) -> Self {
        let short_lap = if self.overwrites { self.bytes } else { bytes.clamp(1, self.bytes) };
        Self { short_lap, ..self }
    }

    /// Uses only the first `bytes` of the arena, a multiple of every alignment. The previous holder, if any, must
    /// have used no more. An overwriting arena is always used in full.
    ///
    /// ```
    /// # use tensortap_sync::SharedU64;
    /// # use tensortap_sync::arena::{ArenaCursors, Space};
    /// # let (written, consumed) = (SharedU64::new(0), SharedU64::new(0));
    /// # let cursors = ArenaCursors { written: &written, consumed: &consumed };
    /// let mut space = Space::new(cursors, 1024).with_limit(128);
    /// assert_eq!([space.reserve(128, 64), space.reserve(64, 64)], [Some(0), None]);
    /// assert!(space.raise_limit(256));
    /// assert_eq!(space.reserve(64, 64), Some(128), "the same lap continues");
    /// ```
    #[must_use]
    pub fn with_limit(self, bytes: u64) -> Self {
        let limit = if self.overwrites { self.bytes } else { bytes.clamp(1, self.bytes) };
        Self { limit, ..self }
    }

    /// Uses more bytes of the arena from now on. Returns whether there are more.
    pub fn raise_limit(&mut self, bytes: u64) -> bool {
        let before = self.limit;
        self.limit = bytes.clamp(before, self.bytes);
        self.limit > before
    }

    /// Bytes of the arena in use.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Where a piece with this alignment (a power of two that divides the arena) would start. Hands out
    /// nothing.
    #[inline]
    pub fn next_piece(&self, align: u64) -> NextPiece {
        debug_assert!(self.limit.is_multiple_of(align), "alignment {align} does not divide the arena");
        let position = aligned(self.written, align);
        match self.lap_end().saturating_sub(position) {
            0 => NextPiece { position: self.lap + self.bytes, to_end: self.limit },
            left => NextPiece { position, to_end: left },
        }
    }

    /// Position after the last byte of this lap that may be in use.
    #[inline]
    fn lap_end(&self) -> u64 {
        self.lap + self.limit
    }

    /// Hands out `bytes` that do not straddle the arena's end, skipping the bytes before the end if
    /// necessary. Returns `None` if they do not fit now.
    #[inline]
    pub fn reserve(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let fit = self.fit(bytes, align)?;
        Some(self.hand_out(fit, bytes))
    }

    /// As [`reserve`](Self::reserve), but may end the lap early; see
    /// [`with_short_laps`](Self::with_short_laps).
    #[inline]
    pub fn reserve_near(&mut self, bytes: u64, align: u64) -> Option<u64> {
        if self.may_end_lap(bytes, align) {
            let begin = Fit { position: self.lap + self.bytes, begins_lap: true };
            return Some(self.hand_out(begin, bytes));
        }
        self.reserve(bytes, align)
    }

    /// Whether [`reserve`](Self::reserve) would succeed. The answer stays true: space only grows.
    pub fn fits(&mut self, bytes: u64, align: u64) -> bool {
        self.fit(bytes, align).is_some()
    }

    /// Whether [`reserve`](Self::reserve) could now hand out everything up to `end`, a position that is not
    /// handed out yet.
    pub fn reaches(&mut self, end: u64) -> bool {
        self.overwrites || end <= self.contiguous_end() || (self.refresh() && end <= self.contiguous_end())
    }

    /// Bytes in use, without reading the other side's cursor. Counts skipped bytes of the current lap only.
    pub fn in_use_hint(&self) -> u64 {
        let consumed = self.consumed.seen();
        if consumed >= self.lap {
            return self.written - consumed;
        }
        self.last_lap_end.saturating_sub(consumed) + (self.written - self.lap)
    }

    /// Bytes in use, after reading the consumer's cursor.
    pub fn in_use(&mut self) -> u64 {
        self.refresh();
        self.in_use_hint()
    }

    /// Position below which every byte is released, after reading the consumer's cursor.
    pub fn given_back(&mut self) -> u64 {
        self.refresh();
        self.consumed.seen()
    }

    /// Position after the last byte handed out.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Stores this side's cursor again, in case another writer has overwritten it.
    pub fn restate(&self) {
        let Ok(()) = self.words.written().store(self.written, Ordering::Relaxed);
    }

    /// Bytes of the arena.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that are in use while the consumer keeps up.
    pub fn short_lap(&self) -> u64 {
        self.short_lap
    }

    /// Bytes of this lap, including skipped ones.
    #[inline]
    pub fn lap_bytes(&self) -> u64 {
        self.written - self.lap
    }

    /// Offset in the arena of a byte that was handed out recently.
    #[inline]
    pub fn offset_of(&self, position: u64) -> u64 {
        // The piece is in the current lap, unless it is filled late.
        position
            .checked_sub(self.lap)
            .filter(|&offset| offset < self.bytes)
            .unwrap_or_else(|| position % self.bytes)
    }

    #[inline]
    fn hand_out(&mut self, fit: Fit, bytes: u64) -> u64 {
        if fit.begins_lap {
            self.last_lap_end = self.written;
            self.lap += self.bytes;
        }
        self.written = fit.position + bytes;
        // Relaxed: the commit of the record that points here publishes it.
        let Ok(()) = self.words.written().store(self.written, Ordering::Relaxed);
        fit.position
    }

    #[inline]
    fn fit(&mut self, bytes: u64, align: u64) -> Option<Fit> {
        if bytes > self.limit {
            return None;
        }
        self.fit_known(bytes, align)
            .or_else(|| if self.refresh() { self.fit_known(bytes, align) } else { None })
    }

    /// Where the bytes fit, without reading the other side's cursor.
    #[inline]
    fn fit_known(&self, bytes: u64, align: u64) -> Option<Fit> {
        let position = aligned(self.written, align);
        if self.is_free(position, bytes) {
            return Some(Fit { position, begins_lap: false });
        }
        let after = aligned(self.last_lap_end + self.bytes, align).max(position);
        if self.is_free(after, bytes) {
            return Some(Fit { position: after, begins_lap: false });
        }
        let begin = self.lap + self.bytes;
        let is_at_end = position >= self.lap_end() || position + bytes > self.lap_end();
        let fits =
            self.overwrites || (self.consumed.seen() >= self.lap && bytes <= self.consumed.seen() - self.lap);
        (is_at_end && fits).then_some(Fit { position: begin, begins_lap: true })
    }

    /// Whether a piece at a position is in this lap and on no byte of the previous lap that is in use.
    #[inline]
    fn is_free(&self, position: u64, bytes: u64) -> bool {
        let (from, to) = (self.consumed.seen() + self.bytes, self.last_lap_end + self.bytes);
        let in_lap = position < self.lap_end() && position + bytes <= self.lap_end();
        in_lap && (self.overwrites || from >= to || position >= to || position + bytes <= from)
    }

    /// Position after the last byte that can be handed out without a gap.
    fn contiguous_end(&self) -> u64 {
        let (consumed, end) = (self.consumed.seen(), self.lap_end());
        let is_past_last_lap =
            consumed >= self.last_lap_end || self.written >= self.last_lap_end + self.bytes;
        if self.limit < self.bytes {
            // The next lap begins after a gap.
            return if is_past_last_lap { end } else { end.min(consumed + self.bytes) };
        }
        if consumed < self.lap && is_past_last_lap { end } else { consumed + self.bytes }
    }

    /// Whether a piece goes to the arena's start although it would fit here: the lap is long enough, and
    /// half of it is released, with room for the piece.
    #[inline]
    fn may_end_lap(&mut self, bytes: u64, align: u64) -> bool {
        let end = aligned(self.written, align).saturating_add(bytes);
        if end <= self.lap + self.short_lap || self.short_lap == self.bytes || end <= self.ask_from {
            return false;
        }
        self.refresh();
        let (used, given_back) = (self.written - self.lap, self.consumed.seen().saturating_sub(self.lap));
        let may = given_back >= used.div_ceil(2) && bytes <= given_back;
        self.ask_from = if may { 0 } else { end + self.short_lap / 4 };
        may
    }

    /// Reads the consumer's cursor and returns whether it moved. An impossible value counts as no movement.
    fn refresh(&mut self) -> bool {
        let before = self.consumed.seen();
        // Pairs with the store in `Consumer::release_to`: the consumer has read the bytes below.
        let Ok(consumed) = self.words.consumed().load(O::SEE_RELEASED);
        self.consumed.follow(consumed, self.written).is_ok_and(|now| now != before)
    }
}

/// The next position with this alignment, a power of two.
#[inline]
const fn aligned(position: u64, align: u64) -> u64 {
    (position + (align - 1)) & !(align - 1)
}

/// The consumer's half.
#[derive(Debug)]
pub struct Consumer<W, O = ProvenOrderings> {
    words: W,
    bytes: u64,
    consumed: u64,
    written: Follower,
    overwritten: bool,
    orderings: PhantomData<fn() -> O>,
}

impl<W: ArenaWords> Consumer<W> {
    /// Takes the consuming half of an arena of `bytes` whose cursors started at zero.
    pub fn new(words: W, bytes: u64) -> Self {
        Self::with_orderings(words, bytes, false)
    }

    /// As [`new`](Self::new), for an arena whose producer [overwrites](Space::overwriting): its cursor has
    /// no upper limit.
    pub fn overwritten(words: W, bytes: u64) -> Self {
        Self::with_orderings(words, bytes, true)
    }
}

impl<W: ArenaWords, O: ArenaOrderings> Consumer<W, O> {
    fn with_orderings(words: W, bytes: u64, overwritten: bool) -> Self {
        Self { words, bytes, consumed: 0, written: Follower::new(0), overwritten, orderings: PhantomData }
    }

    /// Position after the last byte handed out. It covers the payload of every record that this side saw
    /// committed before.
    ///
    /// # Errors
    /// If the cursor moved back or moved further ahead than two laps, or if it cannot be reached.
    pub fn poll(&mut self) -> Result<u64, ReadError<W::Error>> {
        // Relaxed: the records that this side saw committed before order it.
        let written = self.words.written().load(Ordering::Relaxed).map_err(ReadError::Unreachable)?;
        let most = if self.overwritten {
            u64::MAX
        } else {
            self.consumed.saturating_add(self.bytes.saturating_mul(2))
        };
        Ok(self.written.follow(written, most)?)
    }

    /// Releases every byte below `position`. Call it after the last read of them.
    ///
    /// # Errors
    /// If `position` is below an earlier one or past the last cursor that this side read, or if the cursor
    /// cannot be reached.
    pub fn release_to(&mut self, position: u64) -> Result<(), ReadError<W::Error>> {
        let consumed = Follower::new(self.consumed).follow(position, self.written.seen())?;
        // Pairs with the load in `Space::refresh`: the producer may overwrite the bytes below.
        self.words.consumed().store(consumed, O::RELEASE).map_err(ReadError::Unreachable)?;
        self.consumed = consumed;
        Ok(())
    }

    /// Position below which every byte is released.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The producer's cursor at the last read.
    pub fn seen(&self) -> u64 {
        self.written.seen()
    }

    /// Forgets the last known value of the producer's cursor, which a damaged word may have moved.
    pub fn forget_seen(&mut self) {
        self.written = Follower::new(self.consumed);
    }

    /// Stores this side's cursor again, in case another writer has overwritten it.
    ///
    /// # Errors
    /// If the cursor cannot be reached.
    pub fn restate(&self) -> Result<(), W::Error> {
        self.words.consumed().store(self.consumed, O::RELEASE)
    }
}
